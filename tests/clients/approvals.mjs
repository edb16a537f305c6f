// Identities of an access file: two who approve each other's changes and one who only approves,
// those who may not do what pages offer, and one whose token is taken away.
//
//     approvals.mjs ORIGIN SCREENSHOTS ACCESS NEXT
//
// The server has the campaign `wheel`, which requires approvals, and the campaign `free`. ACCESS is
// its access file, and NEXT one without the token `ann-token`. The program prints `good`, or fails
// and says what was wrong.

import assert from "node:assert/strict";
import { copyFile } from "node:fs/promises";
import { Hands } from "./hands.mjs";
import {
    accessible, browser, faults, provokes, settles, shows, signIn, visitor,
} from "./visits.mjs";

const [origin, , access, next] = process.argv.slice(2);
const WHEEL = "/campaigns/wheel";

async function identity(token, how = "mouse") {
    const page = await visitor({ locale: "en-GB" });
    await signIn(page, token);
    return { page, hands: new Hands(page, how) };
}

// Waits for the page of a proposal that was just made; its path.
async function proposed({ page }) {
    await page.waitForURL(/\/proposals\//);
    assert.equal(await page.locator("#approve").count(), 0, "nobody approves it alone");
    return new URL(page.url()).pathname;
}

// Opens a proposal from the first page, and decides on it.
async function decide({ page, hands }, path, button, reason) {
    await page.goto("/");
    await hands.press(`#proposals a[href='${path}']`);
    await hands.send(`form:has(#${button})`, { reason });
    const done = button === "approve" ? "approved" : "rejected";
    await page.locator(".notice.good", { hasText: done }).waitFor();
    await shows(page, reason);
    await accessible(page, button);
}

async function approvals(ann, bea, approver) {
    await ann.page.goto(`${WHEEL}/change`);
    await ann.hands.send("main form:has([name=end])", { name: "Wheel of two" });
    await ann.hands.send("form[action$='/apply']", { reason: "a name" });
    await decide(bea, await proposed(ann), "approve", "fine");
    await ann.page.goto(WHEEL);
    assert.equal(await ann.page.textContent("h1"), "Wheel of two");

    await bea.page.goto(WHEEL);
    await bea.hands.send("form[action$='/mug/stock']", { units: 5, reason: "more" });
    await decide(ann, await proposed(bea), "reject", "not yet");
    await ann.page.goto(WHEEL);
    assert.equal(await ann.page.textContent("[data-live='stock:mug']"), "1,000");

    // The plan, the file and the end are proposed too; the brake needs nobody else.
    await ann.page.goto(`${WHEEL}/plan?at=2029-05-01`);
    // Within the grid arrows move, not the Tab key.
    await ann.hands.reach("[data-grid] input[tabindex='0']");
    for (let row = 0; row < 8; row += 1) {
        await ann.page.keyboard.press("ArrowDown");
    }
    await ann.page.keyboard.press("Space");
    await ann.hands.enter("#value-cells", 80);
    await ann.hands.press("#plan-paint");
    await ann.hands.enter("#plan-reason", "breakfast");
    await ann.hands.press("#plan-apply");
    const plan = await proposed(ann);
    await bea.page.goto(`${WHEEL}/edit`);
    const text = await bea.page.inputValue("#yaml");
    await bea.hands.enter("#yaml", text.replace(/^name: .*$/m, "name: Wheel of bea"));
    await bea.hands.press("#new-try");
    await bea.page.waitForSelector("#new-apply");
    await bea.hands.press("#new-apply");
    const file = await proposed(bea);
    await ann.page.goto(`${WHEEL}/change`);
    await ann.hands.send("form[action$='/close']", { typed: "wheel" });
    const close = await proposed(ann);
    await decide(approver, plan, "approve", "for breakfast");
    await ann.page.goto(`${WHEEL}/plan?at=2029-05-01`);
    assert.equal(await ann.page.textContent("[id='cell-8.1'] + span"), "80");
    // What was proposed for an older version is void.
    await ann.page.goto(file);
    await shows(ann.page, "Void");
    await ann.page.goto(close);
    await shows(ann.page, "Void");
    await ann.page.goto(WHEEL);
    await ann.hands.press("#brake");
    await ann.page.waitForSelector("#brake.go");
    await ann.hands.press("#brake");
    await ann.page.waitForSelector("#brake.stop");
}

// Lines of files, by the act that is done with each.
const LINES = {
    grant: "user-1,1", block: "user-1", unblock: "user-1", deliver: "unit-1,parcel",
    revoke: "unit-1,fraud", forget: "user-1",
};

// Something that each field of a form may have.
async function fill(form, id) {
    const values = (name) => form.locator(`[name=${name}]`).evaluateAll(
        (all) => all.map((it) => it.value),
    );
    const [acts, units] = [await values("act"), await values("unit")];
    for (const field of await form.locator("input, textarea").all()) {
        const [kind, name, value] = await field.evaluate((it) => [it.type, it.name, it.value]);
        // Of codes and a file only one may be given.
        if (kind === "file" && acts.length > 0) {
            await field.setInputFiles({
                name: "one.csv", mimeType: "text/csv", buffer: Buffer.from(LINES[acts[0]]),
            });
        } else if (name === "typed") {
            await field.fill(units[0] ?? id);
        } else if (kind === "number") {
            await field.fill("1");
        } else if (kind === "textarea" || (kind === "text" && value === "")) {
            await field.fill("1");
        }
    }
}

// Sends each form of these pages, but those of acts that are allowed. The service refuses each.
async function refusals(token, allowed, paths) {
    const { page } = await identity(token);
    const refused = [];
    for (const path of paths) {
        await page.goto(path);
        const count = await page.locator("main form[method=post]").count();
        for (let index = 0; index < count; index += 1) {
            await page.goto(path);
            await page.locator("details:not([open])").evaluateAll(
                (parts) => parts.forEach((part) => { part.open = true; }),
            );
            const form = page.locator("main form[method=post]").nth(index);
            const action = await form.getAttribute("action");
            if (allowed.test(action)) {
                continue;
            }
            await fill(form, path.split("/")[2]);
            const answer = page.waitForResponse((it) => it.request().method() === "POST");
            await form.locator("button[type=submit]").click();
            assert.equal((await answer).status(), 403, `${token}: ${action}`);
            await shows(page, "You lack the permission");
            refused.push(action.replace(/.*\//, ""));
        }
    }
    await page.context().close();
    return [...new Set(refused)].sort();
}

async function roles({ page }) {
    const free = "/campaigns/free";
    await settles(page, `${free}/wins`, "user-1");
    const pages = [
        free, `${free}/change`, `${free}/users?user=user-1`, `${free}/codes`, `${free}/many`,
        `${free}/wins`, "/envelopes/gift",
    ];
    const none = /^$/;
    // Whatever pages offer, whoever may only read does none of it.
    const all = await refusals("reader-token", none, pages);
    assert.ok(all.length > 9, all.join());
    for (const act of [
        "pause", "stock", "change", "close", "recall", "grant", "block", "deliver", "revoke", "cancel",
    ]) {
        assert.ok(all.includes(act), act);
    }
    // Whoever may stop does not plan, grant or deliver; whoever may plan does not stop.
    await refusals("brake-token", /\/(pause|block|recall)$/, pages.slice(0, 3));
    await refusals("planner-token", /\/(stock|change|close|ticket)$/, pages.slice(0, 3));
    await few(free);
}

// Does what an identity may do with the form of a page.
async function may(token, path, form, values, text) {
    const { page, hands } = await identity(token);
    await page.goto(path);
    await hands.send(page.locator(form).first(), values);
    await page.locator(".notice.good", { hasText: text }).waitFor();
    await page.context().close();
}

// Whoever may only deliver, grant or approve does that, and nothing else.
async function few(free) {
    const [wins, user] = [`${free}/wins`, `${free}/users?user=user-1`];
    const parcel = { reference: "parcel 1" };
    await may("courier-token", wins, "main form[action$='/deliver']", parcel, "marked as delivered");
    const refused = await refusals("courier-token", /\/(deliver|revoke)$/, [user]);
    assert.deepEqual(refused, ["block", "grant"]);
    await may("host-token", user, "form[action$='/grant']", { draws: 2 }, "The draws are granted");
    assert.deepEqual(await refusals("host-token", /\/grant$/, [user]), ["block", "revoke"]);
    const all = await refusals("approver-token", /^$/, [user, `${free}/change`]);
    assert.deepEqual(all, ["block", "change", "close", "grant", "recall"]);
}

// A session ends with its token, in a page that is open too.
async function revoked({ page, hands }) {
    await page.goto(`${WHEEL}/odds`);
    const { page: open } = await identity("ann-token");
    const live = open.waitForResponse((response) => response.url().includes("/live/campaigns/"));
    await open.goto(WHEEL);
    await live;
    await copyFile(next, access);
    // It is seen within a second: until then the page is still shown.
    while (!page.url().includes("/sign-in")) {
        await page.goto(`${WHEEL}/odds`);
    }
    assert.match(page.url(), /\/sign-in\?ended=1&back=/);
    // A live page leaves without a click.
    await open.waitForURL(/\/sign-in\?ended=1&back=/);
    await open.context().close();
    await page.fill("#token", "ann-token");
    await hands.press("main button[type=submit]");
    await page.waitForSelector(".notice.warn");
    assert.equal(await page.locator(".who").count(), 0);
}

try {
    // Whatever a role does not have; and what a page loads just as its token is taken away.
    provokes(401, 403);
    const [ann, bea] = [await identity("ann-token", "keyboard"), await identity("bea-token")];
    assert.equal(await ann.page.textContent(".who .name"), "ann");
    await approvals(ann, bea, await identity("approver-token"));
    await roles(bea);
    await revoked(ann);
    assert.equal(new URL(bea.page.url()).origin, origin);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
