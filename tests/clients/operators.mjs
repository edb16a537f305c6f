// Two operators at once: whatever one of them changes, the other one is shown, and overwrites
// nothing.
//
//     operators.mjs ORIGIN SCREENSHOTS
//
// The server has the campaign `wheel`, and no access file. The program prints `good`, or fails and
// says what was wrong.

import assert from "node:assert/strict";
import { Hands } from "./hands.mjs";
import { browser, faults, provokes, shows, signIn, visitor } from "./visits.mjs";

const WHEEL = "/campaigns/wheel";
const DAY = `${WHEEL}/plan?at=2029-05-01`;

async function operator(name) {
    const page = await visitor({ locale: "en-GB" });
    await signIn(page, name);
    return { page, hands: new Hands(page, "mouse") };
}

async function version(page) {
    await page.goto(WHEEL);
    const [, number] = (await page.textContent("p.sub")).match(/version (\d+)/);
    return Number(number);
}

async function paint({ page, hands }, cell, units) {
    await hands.enter(`[id="cell-${cell}"]`, true);
    await hands.enter("#value-cells", units);
    await hands.press("#plan-paint");
    await page.waitForSelector("#plan-apply");
}

async function apply({ page, hands }, reason) {
    await hands.enter("#plan-reason", reason);
    await hands.press("#plan-apply");
    await page.locator(".notice.good", { hasText: "The plan is in force" }).waitFor();
}

// Both paint the same day. The second draft is put on the version of the first one.
async function plan(one, other) {
    await one.page.goto(DAY);
    await other.page.goto(DAY);
    await paint(one, "8.1", 80);
    await paint(other, "9.1", 90);
    await apply(one, "breakfast");
    await other.hands.enter("#plan-reason", "brunch");
    await other.hands.press("#plan-apply");
    await shows(other.page, "Somebody changed the campaign meanwhile");
    await shows(other.page, "olga: breakfast");
    const units = async (row) => {
        await one.page.goto(DAY);
        return one.page.textContent(`[id="cell-${row}.1"] + span`);
    };
    assert.deepEqual([await units(8), await units(9)], ["80", "10"]);
    await other.hands.press("#plan-rebase");
    await other.page.waitForSelector("#plan-apply");
    assert.equal(await other.page.locator("[data-grid] .changed").count(), 1);
    await apply(other, "brunch");
    assert.deepEqual([await units(8), await units(9)], ["80", "90"]);
}

// Forms of everyday changes, of stock and of a file were all made of a version that is no more.
async function forms(one, other) {
    await other.page.goto(`${WHEEL}/change`);
    const file = await other.page.context().newPage();
    await file.goto(`${WHEEL}/edit`);
    const summary = await other.page.context().newPage();
    await summary.goto(WHEEL);
    await one.page.goto(`${WHEEL}/change`);
    await one.hands.send("main form:has([name=end])", { name: "Olga's wheel" });
    await one.hands.send("form[action$='/apply']", { reason: "a name" });
    await one.page.locator(".notice.good", { hasText: "in force" }).waitFor();
    const before = await version(one.page);

    await other.hands.send("main form:has([name=end])", { name: "Igor's wheel" });
    await shows(other.page, "olga: a name");
    await new Hands(summary, "mouse").send("form[action$='/mug/stock']", { units: 5 });
    await shows(summary, "Somebody changed the campaign");
    const hands = new Hands(file, "mouse");
    const text = await file.inputValue("#yaml");
    await hands.enter("#yaml", text.replace(/^name: .*$/m, "name: Igor's wheel"));
    await hands.press("#new-try");
    await shows(file, "Nothing was overwritten");
    assert.match(await file.inputValue("#yaml"), /Igor's wheel/);
    assert.equal(await version(one.page), before);
    assert.equal(await one.page.textContent("h1"), "Olga's wheel");

    await other.hands.press("main a.button");
    await other.hands.send("main form:has([name=end])", { name: "Igor's wheel" });
    await other.hands.send("form[action$='/apply']", { reason: "a better name" });
    await other.page.locator(".notice.good", { hasText: "in force" }).waitFor();
    assert.equal(await version(one.page), before + 1);
    assert.equal(await one.page.textContent("h1"), "Igor's wheel");
}

// Each sees what the other one does without a click, and a page that was just loaded never shows
// what was before.
async function brake(one, other) {
    await one.page.goto(WHEEL);
    await other.page.goto(WHEEL);
    await one.hands.press("#brake.stop");
    await one.page.waitForSelector("#brake.go");
    const third = await one.page.context().newPage();
    await third.goto(WHEEL);
    await third.evaluate(() => {
        window.states = [];
        new MutationObserver(() => {
            window.states.push(document.querySelector("#brake").className);
        }).observe(document.querySelector("#main"), { childList: true, subtree: true });
    });
    await other.page.waitForSelector("#brake.go");
    // The numbers of a page have a time: it goes on once news came.
    const read = "[data-live=read] time";
    const first = await third.getAttribute(read, "datetime");
    await third.waitForFunction(
        ([selector, time]) => document.querySelector(selector).dateTime !== time,
        [read, first],
    );
    const states = await third.evaluate(() => window.states);
    assert.ok(!states.some((state) => state.includes("stop")), states.join());
    await third.close();
    await other.hands.press("#brake.go");
    await other.page.waitForSelector("#brake.stop");
    await other.page.focus("#main");
    await one.page.waitForSelector("[data-live=state] .state-running");
    // A button that has the focus stays what it is, lest a key does the opposite.
    assert.equal(await one.page.locator("#brake.go").count(), 1);
    await one.page.focus("#main");
    await one.page.waitForSelector("#brake.stop");
}

try {
    // What was made of another version is refused.
    provokes(409);
    const [one, other] = [await operator("olga"), await operator("igor")];
    await plan(one, other);
    await forms(one, other);
    await brake(one, other);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
