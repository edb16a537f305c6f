// Does what operators do for users, by clicks or by keys: bonus draws, blocks, deliveries, codes,
// files of many lines, envelopes. It also goes through the language, lists as files, and the end of
// a session.
//
//     people.mjs ORIGIN SCREENSHOTS HANDS LEDGER
//
// HANDS is `mouse` or `keyboard`; LEDGER is `settled`, or `unsettled` on Redis without PostgreSQL.
// The server has the campaign `wheel` with wins, the envelope `gift`, and no access file. The
// program prints `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Hands } from "./hands.mjs";
import { browser, faults, provokes, settles, shows, signIn, visitor } from "./visits.mjs";

const [origin, , how, ledger] = process.argv.slice(2);
const WHEEL = "/campaigns/wheel";
const page = await visitor({ viewport: { width: 1280, height: 900 }, locale: "en-GB" });
const hands = new Hands(page, how);
const isSettled = ledger === "settled";

// Waits for the line that says what was done.
async function done(text) {
    await page.locator(".notice.good", { hasText: text }).waitFor();
}

// A file as a browser sends it.
function file(name, ...lines) {
    return { name, mimeType: "text/csv", buffer: Buffer.from(lines.join("\r\n")) };
}

async function user() {
    await page.goto(`${WHEEL}/users`);
    await hands.send(`form[role=search][action='${WHEEL}/users']`, { user: "anna b" });
    await page.locator("h2", { hasText: "anna b" }).waitFor();
    await hands.send("form[action$='/grant']", { draws: 7, reason: "sorry" });
    await done("The draws are granted");
    await shows(page, "Bonus draws left: 7");
    const lapsing = { draws: 2, expire: "2026-12-20T18:30", reason: "for a week" };
    await hands.send("form[action$='/grant']", lapsing);
    await shows(page, "Bonus draws left: 2 until 2026-12-20 18:30");
    await hands.send("form[action$='/block']", { reason: "fraud" });
    await done("The user is blocked");
    await shows(page, "Blocked since");
    await page.goto(`${WHEEL}/users`);
    await hands.press("main td ~ td:has-text('fraud') >> xpath=.. >> a");
    await hands.send("form[action$='/unblock']", { reason: "no fraud" });
    await done("The user is not blocked any more");
    await page.waitForSelector("form[action$='/block']");
}

// Sends a file of many lines; the report says how many were done, and has these texts. Some forms
// have more fields.
async function many(act, lines, sum, texts = [], more = {}) {
    await page.goto(`${WHEEL}/users`);
    await hands.press(`a[href='${WHEEL}/many']`);
    const form = `form:has([name=act][value=${act}])`;
    await hands.send(form, { file: file(`${act}.csv`, ...lines), ...more });
    await shows(page, sum);
    for (const text of texts) {
        await shows(page, text);
    }
}

async function files() {
    await many("grant", ["user,draws", "carl,3", "dora,x"], "Done: 1 of 2 lines", ["no whole number"]);
    await page.goto(`${WHEEL}/users?user=carl`);
    await shows(page, "Bonus draws left: 3");
    await many("block", ["carl", "dora"], "Done: 2 of 2 lines");
    await page.goto(`${WHEEL}/users`);
    await shows(page, "Blocked users (2)");
    await many("unblock", ["carl", "dora"], "Done: 2 of 2 lines");
    await page.goto(`${WHEEL}/users`);
    await shows(page, "Nobody is blocked");
}

async function codes() {
    await page.goto(WHEEL);
    await hands.press(`a[href='${WHEEL}/codes']`);
    const form = `form[action='${WHEEL}/codes/ticket']`;
    await hands.send(form, { codes: "A-1\nA-2", reason: "first batch" });
    await done("The codes are imported");
    await hands.send(form, { file: file("codes.txt", "B-1", "B-2", "B-3") });
    await page.locator("main td.n", { hasText: /^5$/ }).first().waitFor();
    await hands.press("a[href$='codes?prize=ticket']");
    await shows(page, "B-3");
    // One of both.
    await hands.send(form, { codes: "C-1", file: file("codes.txt", "C-2") });
    await shows(page, "one of both");
}

function ofUnit(unit) {
    return `${WHEEL}/wins?unit=${encodeURIComponent(unit)}`;
}

// The text of a file that a link of the page leads to.
async function downloaded(name) {
    const download = page.waitForEvent("download");
    await hands.press(`main a[href*='/${name}']`);
    return readFile(await (await download).path(), "utf8");
}

// Revokes a win whose unit leaves the campaign, once its id is typed.
async function withdrawn(unit) {
    const form = "main form[action$='/revoke']:has([name=typed])";
    await page.goto(ofUnit(unit));
    await hands.send(form, { reason: "broken", typed: "another" });
    await shows(page, "nothing was done");
    await page.goto(ofUnit(unit));
    await hands.send(form, { reason: "broken", typed: unit });
    await done("The win is revoked");
    await settles(page, ofUnit(unit), "Revoked");
    await page.goto(WHEEL);
    assert.equal(await page.textContent("[data-live='withdrawn:mug']"), "1");
}

// Marks one win as delivered and another one by file, revokes a third one and one by file, and
// withdraws the unit of one.
async function wins() {
    await settles(page, `${WHEEL}/wins`, "deck:1:0");
    const win = (row) => page.locator("main tbody tr").nth(row);
    const unit = (row) => win(row).locator("[name=unit]").first().inputValue();
    const units = [];
    for (let row = 0; row < 5; row += 1) {
        units.push(await unit(row));
    }
    const [first, second, third, fourth, fifth] = units;
    const deliver = win(0).locator("form[action$='/deliver']");
    await hands.send(deliver, { reference: "parcel 9" });
    await done("The win is marked as delivered");
    await settles(page, ofUnit(first), "parcel 9");
    await many("deliver", [`${second},parcel 10`, "nothing,x"], "Done: 1 of 2 lines");
    await settles(page, ofUnit(second), "parcel 10");
    await page.goto(ofUnit(third));
    await hands.send("main form[action$='/revoke']:not(:has([name=typed]))", { reason: "a mistake" });
    await done("The win is revoked");
    await settles(page, ofUnit(third), "Revoked");
    assert.equal(await page.locator("main form[action$='/revoke']").count(), 0);
    await withdrawn(fourth);
    await many("revoke", [`${fifth},fraud`, "nothing,x"], "Done: 1 of 2 lines");
    await settles(page, ofUnit(fifth), "Revoked");
    await page.goto(ofUnit(third));

    // The list of one unit, as a file.
    const text = await downloaded("wins.csv");
    assert.ok(text.includes(third) && !text.includes(first), text);
    // Winners to publish: who lost a win is none, and neither users nor requests are named.
    await page.goto(`${WHEEL}/wins`);
    const winners = await downloaded("winners.csv");
    assert.ok(winners.includes(first) && winners.includes("***"), winners);
    for (const secret of [third, fourth, fifth, "order-1"]) {
        assert.ok(!winners.includes(secret), `${secret}: ${winners}`);
    }
    // The prize is called like a user: only its own name is there.
    for (const line of winners.split("\n")) {
        assert.ok(line.split("<script>").length <= 2, line);
    }
    await settles(page, `${WHEEL}/history`, "a mistake");
    // The search finds a user, a request and a unit.
    for (const [sought, found] of [["carl", "carl"], ["order-1", "order-1"], [first, "parcel 9"]]) {
        await hands.enter("#search", sought);
        await page.keyboard.press("Enter");
        await page.waitForURL(/\/search\?q=/);
        await shows(page, found);
    }
}

// Filters a list by its form: it has the one text and not the other one. The link back shows all.
async function filters(list, values, present, absent) {
    const path = `${WHEEL}/${list}`;
    await page.goto(path);
    await hands.send("main form.filter", values);
    await page.waitForURL(({ searchParams }) => Object.entries(values).every(
        ([name, value]) => searchParams.get(name) === value,
    ));
    const rows = await page.locator("main table").last().innerText();
    assert.ok(rows.includes(present) && !rows.includes(absent), `${list}: ${rows}`);
    await hands.press("main form.filter a");
    await page.waitForURL(`${origin}${path}`);
    assert.ok((await page.locator("main").innerText()).includes(absent), `${list}: ${absent}`);
}

async function lists() {
    const days = { from: "2026-12-05", to: "2026-12-05" };
    await filters("draws", { outcome: "NOTHING", ...days }, "Nothing", "order-1");
    await filters("wins", { prize: "mug", delivery: "DELIVERED", ...days }, "parcel 9", "Revoked");
    await filters("history", { operator: "olga", kind: "REVOKE" }, "broken", "sorry");
}

// The hours of a day, of one prize.
async function hours() {
    const named = () => page.locator("main table", { hasText: "coupon" }).count();
    for (const [prize, isThere] of [["coupon", true], ["mug", false]]) {
        await page.goto(`${WHEEL}/schedule`);
        await hands.send(".calendar form", { day: "2026-12-06", prize });
        await page.waitForURL(({ searchParams }) => searchParams.get("prize") === prize);
        assert.equal(new URL(page.url()).searchParams.get("day"), "2026-12-06");
        assert.equal(await named() > 0, isThere, prize);
    }
}

// Erases users from the settled ledger, one and one by file.
async function erasure() {
    await page.goto(`${WHEEL}/users?user=carl`);
    await hands.press("main a[href='/users/forget?user=carl']");
    await settles(page, "/users/forget?user=carl", "It cannot be undone");
    const form = "form[action='/users/forget']";
    await hands.send(form, { typed: "car" });
    await shows(page, "nothing was done");
    await hands.press("main a:has-text('Back')");
    await hands.send(form, { reason: "asked for it", typed: "carl" });
    await done("The user is erased from the settled ledger");
    await shows(page, "The settled ledger does not name this user");
    await settles(page, "/users/forget?user=dora", "It cannot be undone");
    const more = { reason: "asked, too", typed: "wheel" };
    await many("forget", ["dora"], "Done: 1 of 1 lines", [], more);
    await page.goto("/users/forget?user=dora");
    await shows(page, "The settled ledger does not name this user");
}

async function envelope() {
    await page.goto("/");
    await hands.press("nav a[href='/envelopes']");
    await hands.send("form.filter[action='/envelopes']", { envelope: "gift" });
    await page.waitForURL(`${origin}/envelopes/gift`);
    const form = "form[action='/envelopes/gift/cancel']";
    await hands.send(form, { typed: "gif" });
    await shows(page, "nothing was done");
    await hands.press("main a:has-text('Back')");
    await hands.send(form, { typed: "gift", reason: "a mistake" });
    await done("The envelope is cancelled");
    await page.locator(".title .badge", { hasText: "Cancelled" }).waitFor();
    assert.equal(await page.locator(form).count(), 0);
}

async function language() {
    // Also on a page that a refused form has led to, which has no address to come back to.
    await page.goto("/envelopes/gift");
    await hands.press(".languages [value=zh]");
    await page.waitForSelector("html[lang=zh]");
    assert.equal(page.url(), `${origin}/envelopes/gift`);
    await page.goto(`${WHEEL}/change`);
    await hands.send("form[action$='/close']", { typed: "another" });
    await page.waitForSelector(".notice.bad, .notice.warn");
    await hands.press(".languages [value=en]");
    await page.waitForSelector("html[lang=en]");
    assert.equal(page.url(), `${origin}${WHEEL}/change`);
}

// Whoever clicks after the end of the session signs in and is back on the page.
async function session() {
    await page.goto(WHEEL);
    const other = await page.context().newPage();
    await other.goto(`${WHEEL}/odds`);
    await new Hands(other, how).press(".who button");
    await other.waitForURL(`${origin}/sign-in`);
    await other.close();
    await hands.press("#brake");
    await page.waitForURL(/\/sign-in\?back=/);
    await signIn(page);
    assert.equal(page.url(), `${origin}${WHEEL}`);
    await page.waitForSelector("#brake.stop");
    await page.context().clearCookies();
    await hands.press(`.tabs a[href='${WHEEL}/odds']`);
    await page.waitForURL(/\/sign-in\?back=/);
    await signIn(page);
    assert.equal(page.url(), `${origin}${WHEEL}/odds`);
    // A live page that was hidden when the session ended, too. It may know already, as its stream is
    // opened once it is loaded.
    await page.goto(WHEEL);
    await page.context().clearCookies();
    const seen = () => document.dispatchEvent(new Event("visibilitychange"));
    await page.evaluate(seen).catch(() => {});
    await page.waitForURL(/\/sign-in\?back=/);
    await signIn(page);
    assert.equal(page.url(), `${origin}${WHEEL}`);
    // A form without scripts, too.
    await page.goto(`${WHEEL}/change`);
    await page.context().clearCookies();
    await hands.send("main form:has([name=end])", { name: "Nobody's" });
    await page.waitForURL(/\/sign-in\?back=/);
    await signIn(page);
    assert.equal(page.url(), `${origin}${WHEEL}/change`);
    assert.notEqual(await page.inputValue("[name=name]"), "Nobody's");
    await hands.press(".who button");
    await page.waitForURL(`${origin}/sign-in`);
}

try {
    // What is refused: forms that are not right, and clicks after the session.
    provokes(400, 401);
    await signIn(page);
    await user();
    await files();
    await codes();
    if (isSettled) {
        await wins();
        await lists();
        await erasure();
    } else {
        await page.goto(`${WHEEL}/wins`);
        await shows(page, "--postgres-url");
    }
    await hours();
    await envelope();
    await language();
    await session();
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
