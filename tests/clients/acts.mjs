// Does what operators do with a campaign, by clicks or by keys: the brake, everyday changes, the
// plan, campaign files, and what cannot be undone.
//
//     acts.mjs ORIGIN SCREENSHOTS HANDS LEDGER
//
// HANDS is `mouse` or `keyboard`; LEDGER is `settled`, or `unsettled` on Redis without PostgreSQL.
// The server has the campaign `wheel` in its first version, and no access file. The program prints
// `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { Hands } from "./hands.mjs";
import {
    accessible, browser, faults, photograph, provokes, settles, shows, signIn, visitor,
} from "./visits.mjs";

const [, , how, ledger] = process.argv.slice(2);
const WHEEL = "/campaigns/wheel";
const page = await visitor({ viewport: { width: 1280, height: 900 } });
const hands = new Hands(page, how);

// Waits for the line that says what was done.
async function done(text) {
    await page.locator(".notice.good", { hasText: text }).waitFor();
}

// The history of the campaign, where its ledger is settled.
async function remembers(...texts) {
    if (ledger === "settled") {
        for (const text of texts) {
            await settles(page, `${WHEEL}/history`, text);
        }
    }
}

// Says why something is paused, and waits for the page that comes.
async function explains(what, reason) {
    const loaded = page.waitForEvent("load");
    await hands.send(`form.line[action='${WHEEL}${what}/pause']`, { reason });
    await loaded;
}

async function brake() {
    await page.goto(WHEEL);
    await hands.press("#brake");
    await page.waitForSelector("#brake.go");
    await page.waitForSelector("[data-live=state] .state-paused");
    await done("The campaign is paused");
    // The page was not loaded again, and the focus is where it was.
    assert.equal(new URL(page.url()).search, "");
    await page.waitForFunction(() => document.activeElement.id === "brake");
    await explains("", "smoke");
    await done("The campaign is paused");
    await hands.press("#brake");
    await page.waitForSelector("#brake.stop");
    await page.waitForSelector("[data-live=state] .state-running");

    await hands.press("#brake-mug");
    await page.waitForSelector("#brake-mug.go");
    await shows(page, "mug is paused");
    await explains("/prizes/mug", "broken mugs");
    await done("The prize is paused");
    await hands.press("#brake-mug");
    await page.waitForSelector("#brake-mug.stop");
    await remembers("smoke", "broken mugs", "resumed the campaign");
}

async function stock() {
    await page.goto(WHEEL);
    await hands.send("form[action$='/prizes/mug/stock']", { units: 500, reason: "more mugs" });
    await done("The stock is raised");
    assert.equal(await page.textContent("[data-live='stock:mug']"), "1,500");
    await remembers("more mugs");
}

// Checks a change of the form with this field, sees these texts, and applies it.
async function change(path, form, values, texts) {
    await page.goto(`${path}/change`);
    await hands.send(`main form:has(${form})`, values);
    await page.waitForSelector("form[action$='/apply']");
    for (const text of texts) {
        await shows(page, text);
    }
    await hands.send("form[action$='/apply']", { reason: `by the form of ${form}` });
    await done("The change is in force");
}

async function changes() {
    const value = (selector) => page.inputValue(`main form${selector}`);
    const name = { name: "Winter & <co>", end: "2031-01-31T00:00:00" };
    await change(WHEEL, "[name=end]", name, ["endTime", "2031-01-30T16:00:00Z", "Winter & <co>"]);
    assert.equal(await page.textContent("h1"), "Winter & <co>");
    assert.match(await value(":has([name=end]) [name=end]"), /^2031-01-31T00:00/);

    const own = "[name=draws_per_hour]):not(:has([name=segment])";
    const limits = { draws_per_day: 40, draws_per_hour: 30, wins_per_user: "" };
    await change(WHEEL, own, limits, ["limits.drawsPerHour", "30"]);
    assert.equal(await value(`:has(${own}) [name=draws_per_hour]`), "30");
    assert.equal(await value(`:has(${own}) [name=wins_per_user]`), "");
    const vip = "[name=segment][value=vip]";
    await change(WHEEL, vip, { draws_per_day: 120 }, ["120"]);
    assert.equal(await value(`:has(${vip}) [name=draws_per_day]`), "120");
    const coupon = "[name=prize][value=coupon]";
    await change(WHEEL, coupon, { prize_name: "Coupon of a café" }, ["Coupon of a café"]);
    assert.equal(await value(`:has(${coupon}) [name=prize_name]`), "Coupon of a café");
    await photograph(page, "change");
    await remembers("by the form of [name=end]");

    // Nothing that differs, and a field that is wrong.
    await page.goto(`${WHEEL}/change`);
    await hands.send(`main form:has(${vip})`, { draws_per_day: 120 });
    await shows(page, "Nothing differs");
    await accessible(page, "a change");
    await page.goto(`${WHEEL}/change`);
    await hands.send("main form:has([name=end])", { end: "2020-01-01T00:00:00" });
    await page.waitForSelector(".notice.bad");
}

const checked = () => page.locator("[data-grid] :checked").evaluateAll(
    (cells) => cells.map((cell) => cell.value).join(" "),
);

// The cells of one column from one row to another one.
async function select(first, last) {
    if (hands.isKeyboard) {
        await hands.reach("[data-grid] input[tabindex='0']");
        await page.keyboard.press("Home");
        for (let row = 0; row < first; row += 1) {
            await page.keyboard.press("ArrowDown");
        }
        for (let row = first; row < last; row += 1) {
            await page.keyboard.press("Shift+ArrowDown");
        }
        return;
    }
    const at = async (row) => {
        const box = page.locator(`[id="cell-${row}.1"]`).locator("xpath=..");
        await box.scrollIntoViewIfNeeded();
        const { x, y, width, height } = await box.boundingBox();
        return [x + width / 2, y + height / 2];
    };
    const bottom = await at(last);
    await page.mouse.move(...await at(first));
    await page.mouse.down();
    await page.mouse.move(...bottom, { steps: 5 });
    await page.mouse.up();
}

async function applyPlan(reason) {
    await hands.enter("#plan-reason", reason);
    await hands.press("#plan-apply");
    await done("The plan is in force");
}

async function plan() {
    const units = (row) => page.textContent(`[id="cell-${row}.1"] + span`);
    const day = (date) => page.goto(`${WHEEL}/plan?at=${date}`);
    const changed = (count) => page.waitForFunction(
        (wanted) => document.querySelectorAll("[data-grid] .changed").length === wanted, count,
    );
    await day("2028-02-28");
    await select(1, 3);
    assert.equal(await checked(), "1.1 2.1 3.1");
    await hands.enter("#value-cells", 70);
    await hands.press("#plan-paint");
    await changed(3);
    // What is selected stays so, for the next step; that one is taken back.
    assert.equal(await checked(), "1.1 2.1 3.1");
    await hands.enter("form:has(#plan-paint) [name=op]", "multiply");
    await hands.enter("#value-cells", "1.5");
    await hands.press("#plan-paint");
    await page.waitForFunction(() => document.getElementById("cell-2.1").labels[0].innerText === "105");
    await hands.press("#plan-undo");
    await page.waitForFunction(() => document.getElementById("cell-2.1").labels[0].innerText === "70");
    await accessible(page, "plan");
    await applyPlan("a busy night");
    assert.deepEqual([await units(0), await units(1), await units(3)], ["10", "70", "70"]);

    // Hours of several days, then those of a day on other days, in one draft.
    const range = {
        from: "2028-03-06", until: "2028-03-07", begin: "20", end: "22", op: "add", value: "5",
    };
    await hands.send("form:has(#plan-range)", range);
    await page.waitForSelector("#plan-apply");
    const copy = { day: "2028-02-28", from: "2028-03-10", until: "2028-03-12" };
    const sunday = page.locator("form:has(#plan-copy) [name=weekday][value='7']");
    await hands.press("summary:has-text('Copy a day')");
    for (const [name, value] of Object.entries(copy)) {
        await hands.enter(`form:has(#plan-copy) [name=${name}]`, value);
    }
    await hands.enter(sunday, false);
    await hands.press("#plan-copy");
    await shows(page, "Days that change: 4");
    await applyPlan("evenings");
    await day("2028-03-07");
    assert.deepEqual([await units(19), await units(20), await units(22)], ["10", "15", "10"]);
    await day("2028-03-11");
    assert.equal(await units(2), "70");
    await day("2028-03-12");
    assert.equal(await units(2), "10");

    // Another prize, a day of the month, and a draft that is thrown away.
    await hands.press("#go-2028-03");
    await hands.press("#go-2028-03-14");
    await page.waitForSelector("#go-2028-03");
    await hands.enter("form:has(#plan-with) [name=with]", "mug");
    await hands.press("#plan-with");
    await page.waitForSelector("[id='cell-2.0']");
    if (hands.isKeyboard) {
        // Within the grid arrows move, not the Tab key.
        await select(2, 2);
        await page.keyboard.press("ArrowLeft");
        await page.keyboard.press("Space");
    } else {
        await hands.press("label:has([id='cell-2.0'])");
    }
    assert.equal(await checked(), "2.0");
    await hands.enter("#value-cells", 1);
    await hands.press("#plan-paint");
    await changed(1);
    await hands.press("a.button:has-text('Discard')");
    await page.waitForSelector("[id='cell-2.0']", { state: "detached" });
    await remembers("a busy night", "evenings");
}

// Adds a prize to the hour that is being filled: some of its units can be taken back.
async function topUp() {
    await page.goto(`${WHEEL}/plan?at=2026-12-05&with=mug`);
    await page.waitForSelector("[id='cell-12.0']");
    if (hands.isKeyboard) {
        // Hours that have passed are skipped: the first one is that of now.
        await select(0, 0);
        await page.keyboard.press("ArrowLeft");
        await page.keyboard.press("Space");
    } else {
        await page.check("[id='cell-12.0']", { force: true });
    }
    assert.equal(await checked(), "12.0");
    await hands.enter("#value-cells", 40);
    await hands.press("#plan-paint");
    await page.waitForSelector("#plan-apply");
    await applyPlan("mugs at noon");
}

// A campaign of a template; its path.
async function create() {
    await page.goto("/");
    await hands.press("a[href='/new']");
    await hands.press("a[href='/new?template=mall-wheel']");
    await page.waitForURL(/template=mall-wheel/);
    // Days ahead of the server's clock, and few, so that they are soon played through.
    const template = await page.inputValue("#yaml");
    const right = template
        .replace(/startTime: \S+/, "startTime: 2026-12-10T00:00:00+08:00")
        .replace(/endTime: \S+/, "endTime: 2026-12-12T00:00:00+08:00");
    await hands.enter("#yaml", right.replace("timeZone: Asia/Shanghai", "timeZone: Asia/Shangai"));
    await page.waitForSelector("#checked .bad");
    await hands.enter("#yaml", right);
    await page.waitForSelector("#checked .good");
    await hands.press("#new-try");
    await page.waitForSelector("#new-apply");
    assert.equal(await page.inputValue("#yaml"), right);
    await hands.enter("[name=users]", 20);
    await hands.press("#forecast-run");
    await page.waitForSelector("#forecast-result");
    await accessible(page, "new");
    await photograph(page, "new");
    await hands.press("#new-apply");
    await page.waitForURL(/\/campaigns\/mall-wheel-\d+(\?done=applied)?$/);
    await done("The campaign is applied");
    return new URL(page.url()).pathname;
}

// A new version by its file, and a budget, which every prize needs a worth for.
async function edit(path) {
    await page.goto(path);
    await hands.press(`a[href='${path}/edit']`);
    await page.waitForURL(/\/edit$/);
    const text = await page.inputValue("#yaml");
    const worth = ", value: {currencyCode: CNY, units: 10}";
    await hands.enter("#yaml", text.replace("unlimited: true", `$&${worth}`));
    await hands.press("#new-try");
    await shows(page, "prizes[coupon].value");
    await hands.enter("#new-reason", "coupons have a worth");
    await hands.press("#new-apply");
    await done("The campaign is applied");
    await shows(page, "version 2");
    const budget = { budget_currency: "CNY", budget_per_day: "50,000", budget_total: "90000.50" };
    await change(path, "[name=budget_currency]", budget, ["budget.total"]);
    assert.equal(await page.inputValue("[name=budget_per_day]"), "50000");
    assert.equal(await page.inputValue("[name=budget_total]"), "90000.5");
}

// Plays a draft of the plan through, and throws it away.
async function foresee(path) {
    await page.goto(`${path}/plan?pool=vouchers&at=2026-12-10`);
    await select(12, 13);
    await hands.enter("#value-cells", 3);
    await hands.press("#plan-paint");
    await page.waitForSelector("#plan-apply");
    await hands.enter("#forecast [name=users]", 20);
    await hands.press("#forecast-run");
    await page.waitForSelector("#forecast-result");
    await shows(page, "voucher");
    // The draft is there still.
    assert.equal(await page.locator("[data-grid] .changed").count(), 2);
    await hands.press("a.button:has-text('Discard')");
    await page.waitForSelector("#plan-apply", { state: "detached" });
}

// The links above the list of campaigns show those of one state.
async function states(path) {
    const id = path.split("/").pop();
    for (const [state, present, absent] of [["CLOSED", id, "wheel"], ["RUNNING", "wheel", id]]) {
        await page.goto("/");
        await hands.press(`.filters a[href='/?state=${state}']`);
        await page.waitForURL(({ searchParams }) => searchParams.get("state") === state);
        assert.equal(await page.locator(`th a[href='/campaigns/${present}']`).count(), 1, state);
        assert.equal(await page.locator(`th a[href='/campaigns/${absent}']`).count(), 0, state);
    }
}

// Whatever cannot be undone asks for the id.
async function end(path) {
    const id = path.split("/").pop();
    await page.goto(`${WHEEL}/change`);
    await hands.send("form[action$='/recall']", { pool: "hourly", typed: "whee" });
    await shows(page, "nothing was done");
    // One hour of one prize, to stock; then all of another one, for good.
    await page.goto(`${WHEEL}/change`);
    const noon = { prize: "mug", hour: "2026-12-05T12:00", units: "stock", typed: "wheel" };
    await hands.send("form[action$='/recall']", { ...noon, reason: "no mugs at noon" });
    await done("The units are back in stock");
    await remembers("no mugs at noon");
    await page.goto(`${WHEEL}/change`);
    const recall = { prize: "coupon", units: "withdraw", reason: "wrong plan", typed: "wheel" };
    await hands.send("form[action$='/recall']", recall);
    await done("The units have left the campaign");
    assert.notEqual(await page.textContent("[data-live='withdrawn:coupon']"), "0");

    await page.goto(`${path}/change`);
    await hands.send("form[action$='/close']", { typed: "wheel" });
    await shows(page, "nothing was done");
    await page.goto(`${path}/change`);
    await hands.send("form[action$='/close']", { reason: "no mall", typed: id });
    await done("The campaign is closed");
    await page.waitForSelector(".state-closed");
    assert.equal(await page.locator("#brake").count(), 0);
    await remembers("wrong plan");
}

try {
    // What is refused: a change that is not right, and ids that are mistyped.
    provokes(400, 409);
    await signIn(page);
    await brake();
    await stock();
    await changes();
    await plan();
    await topUp();
    const path = await create();
    await edit(path);
    await foresee(path);
    await end(path);
    await states(path);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
