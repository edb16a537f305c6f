// Opens the console in Chromium, as people do: with a keyboard, on a phone, in both schemes and
// languages.
//
//     browser.mjs ORIGIN SCREENSHOTS PAGE...
//
// PAGEs are paths. It prints `good`, or fails and says what was wrong. The server has a campaign
// `wheel` and no access file.

import assert from "node:assert/strict";
import { Hands } from "./hands.mjs";
import {
    accessible, browser, everything, faults, leaves, photograph, signIn, visitor,
} from "./visits.mjs";

const [origin, , ...pages] = process.argv.slice(2);

// The keyboard alone signs in, finds the campaign, and pauses it.
async function keyboard() {
    const page = await visitor({ viewport: { width: 1280, height: 900 } });
    const hands = new Hands(page, "keyboard");
    await page.goto("/");
    await accessible(page, "sign-in");
    await photograph(page, "sign-in");
    await hands.reach("#name");
    await page.keyboard.type("olga");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${origin}/`);
    await hands.reach("a[href='/campaigns/wheel']");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${origin}/campaigns/wheel`);
    await hands.reach("#brake");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#brake.go");
    await page.waitForSelector("[data-live=state] .state-paused");
    // The page was not loaded again, and the focus is where it was.
    assert.equal(page.url(), `${origin}/campaigns/wheel`);
    await page.waitForFunction(() => document.activeElement.id === "brake");
    await photograph(page, "paused");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#brake.stop");
    await page.context().close();
}

// What another operator does is seen without a click.
async function together() {
    const [one, other] = [await visitor({}), await visitor({})];
    await signIn(one);
    await signIn(other);
    await one.goto("/campaigns/wheel");
    await other.goto("/campaigns/wheel");
    await one.click("#brake");
    await other.waitForSelector("#brake.go");
    await other.click("#brake");
    await one.waitForSelector("[data-live=state] .state-running");
    await one.context().close();
    await other.context().close();
}

// The keyboard alone selects cells of the plan and changes them; the mouse selects a rectangle.
async function paint() {
    const page = await visitor({ viewport: { width: 1280, height: 900 } });
    await signIn(page);
    const hands = new Hands(page, "keyboard");
    await page.goto("/campaigns/wheel/plan?at=2028-02-28");
    const checked = () => page.locator("[data-grid] :checked").evaluateAll(
        (cells) => cells.map((cell) => cell.value).join(" "),
    );
    // The grid is one stop of the Tab key.
    await hands.reach("[data-grid] input[tabindex='0']");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.down("Shift");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.up("Shift");
    assert.equal(await checked(), "1.1 2.1");
    await page.keyboard.press("End");
    await page.keyboard.press("Space");
    assert.equal(await checked(), "1.1 2.1 23.1");
    assert.equal(await page.textContent("[data-selected]"), "3 selected");
    await page.fill("#value-cells", "70");
    await page.press("#value-cells", "Enter");
    await page.waitForSelector("#plan-apply");
    await page.waitForFunction(() => document.activeElement.id === "value-cells");
    assert.equal(await page.locator("[data-grid] .changed").count(), 3);
    assert.equal(await checked(), "1.1 2.1 23.1");
    await accessible(page, "plan");
    await photograph(page, "plan");
    // Who leaves with a draft is asked. A month has an address while there is none.
    const editor = page.url();
    await leaves(page, () => page.goto("/"));
    await page.goto(editor.replace("2028-02-28", "2028-02"));
    await page.click("#go-2028-02-28");
    await page.waitForURL(/at=2028-02-28/);
    await page.check('[id="cell-4.1"]', { force: true });
    await page.fill("#value-cells", "71");
    await page.press("#value-cells", "Enter");
    await page.waitForSelector("#plan-apply");

    await hands.reach("[data-grid] input[tabindex='0']");
    await page.keyboard.press("Escape");
    assert.equal(await checked(), "");
    const cell = async (value) => {
        const box = await page.locator(`[id="cell-${value}"]`).locator("xpath=..").boundingBox();
        return [box.x + box.width / 2, box.y + box.height / 2];
    };
    await page.locator('[id="cell-6.1"]').scrollIntoViewIfNeeded();
    await page.mouse.move(...await cell("4.1"));
    await page.mouse.down();
    await page.mouse.move(...await cell("6.1"), { steps: 5 });
    await page.mouse.up();
    assert.equal(await checked(), "4.1 5.1 6.1");
    await page.mouse.click(...await cell("5.1"));
    assert.equal(await checked(), "4.1 6.1");
    await page.keyboard.press("Control+a");
    assert.equal((await checked()).split(" ").length, 24);
    await page.keyboard.press("Escape");
    await page.click("#plan-undo");
    await page.waitForSelector("#plan-apply", { state: "detached" });
    await page.context().close();
}

// A page that nobody sees reads nothing.
async function hidden() {
    const page = await visitor({});
    await signIn(page);
    const isStream = (request) => request.url().includes("/live/campaigns/");
    const opened = () => page.waitForResponse((response) => isStream(response.request()));
    const turn = (isHidden) => page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { configurable: true, value });
        document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
    const first = opened();
    await page.goto("/campaigns/wheel");
    await first;
    const closed = page.waitForEvent("requestfailed", isStream);
    await turn(true);
    await closed;
    const again = opened();
    await turn(false);
    await again;
    await page.context().close();
}

// A page that is told to load itself opens no stream until it is loaded. Another stream would tell
// it again, and the second load would abort the first.
async function over() {
    const page = await visitor({});
    await page.addInitScript(() => {
        let streams = 0;
        window.EventSource = class extends EventSource {
            constructor(address) {
                super(address);
                streams += 1;
                window.stream = this;
                // Once the page has heard it, too.
                this.addEventListener("over", () => setTimeout(() => {
                    const before = streams;
                    document.dispatchEvent(new Event("visibilitychange"));
                    sessionStorage.opened = streams - before;
                }));
            }
        };
    });
    await signIn(page);
    await page.goto("/campaigns/wheel");
    const loaded = page.waitForEvent("load");
    // On the stream that the page has now: it opens another when it is shown, and what the network
    // said to the one before would be lost.
    await page.evaluate(() => window.stream.dispatchEvent(new Event("over")));
    await loaded;
    assert.equal(await page.evaluate(() => sessionStorage.opened), "0");
    await page.context().close();
}

// Pages that have lost the same server come back one after the other.
async function reconnect() {
    for (const [random, pause] of [[0, 2000], [0.75, 8000]]) {
        const page = await visitor({});
        await page.addInitScript((value) => {
            Math.random = () => value;
            window.pauses = [];
            const original = window.setTimeout;
            window.setTimeout = (act, ms, ...rest) => {
                window.pauses.push(ms);
                return original(act, ms, ...rest);
            };
        }, random);
        const ended = { status: 200, contentType: "text/event-stream", body: "" };
        await page.route("**/live/campaigns/**", (route) => route.fulfill(ended));
        await signIn(page);
        await page.goto("/campaigns/wheel");
        await page.waitForFunction((ms) => window.pauses.includes(ms), pause);
        await page.context().close();
    }
}

try {
    await keyboard();
    await together();
    if (pages.some((path) => path.endsWith("/plan"))) {
        await paint();
    }
    await hidden();
    await over();
    await reconnect();
    await everything();
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
