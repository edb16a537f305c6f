// Opens the console of `tombola demo` by its link, sees prizes fall, and makes the pictures of
// docs/console.md.
//
//     demo.mjs ORIGIN SCREENSHOTS PATH
//
// PATH is that of the link. It prints `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { accessible, browser, faults, fits, leaves, visitor } from "./visits.mjs";

const [origin, screenshots, link] = process.argv.slice(2);
const CAMPAIGN = "/campaigns/spring-wheel";

// The last moments of the demo's story, and how long that may take.
const END = "2026-12-01";
const STORY_MS = 110_000;

// A picture of the page's top, so high.
async function picture(page, name, height) {
    await page.setViewportSize({ width: 1280, height });
    await page.evaluate(() => {
        document.activeElement.blur();
        window.scrollTo(0, 0);
    });
    await page.screenshot({ path: `${screenshots}/${name}.png` });
}

// Waits until the service knows how fast users draw, after the days that were let pass.
async function rate(page) {
    await page.waitForFunction(
        () => /[1-9]/.test(document.querySelector("[data-live^=minute]").textContent),
    );
}

try {
    const page = await visitor({ viewport: { width: 1280, height: 860 }, locale: "en-GB" });
    await page.goto(link);
    await page.waitForURL(`${origin}/`);
    // The link signs in once.
    assert.equal((await page.request.get(link)).status(), 403);

    await page.goto(CAMPAIGN);
    const draws = () => page.textContent("[data-live=draws]");
    const before = await draws();
    await page.waitForFunction(
        (text) => document.querySelector("[data-live=draws]").textContent !== text,
        before,
    );
    await accessible(page, "demo");
    await page.waitForFunction(
        (end) => document.querySelector("[data-live=read]").textContent.trim() >= end,
        END,
        { timeout: STORY_MS },
    );
    // Time has passed hour by hour: nothing was missed, and nothing needs a look once all is
    // settled. The only car may have been won.
    await page.goto("/");
    const left = () => page.locator("#alerts li", { hasNotText: "car is out of stock" });
    await left().first().waitFor({ state: "detached" }).catch(async (error) => {
        throw new Error(`alerts are left: ${await left().allInnerTexts()}`, { cause: error });
    });
    await page.goto("/system");
    assert.match(await page.textContent("main"), / 0 missed/);
    await page.goto("/");
    await rate(page);
    await picture(page, "overview", 420);
    await page.goto(`${CAMPAIGN}?curve=week`);
    await page.locator("#curve polyline >> visible=true").first().waitFor();
    await rate(page);
    await picture(page, "console", 1460);
    await page.goto(`${CAMPAIGN}/schedule?day=2026-11-29`);
    await picture(page, "schedule", 1100);
    await page.goto(`${CAMPAIGN}/wins`);
    await page.locator("main tbody details").first().locator("summary").click();
    await picture(page, "wins", 900);
    await page.locator("main tbody a[href*='/users?user=']").first().click();
    await page.locator("main h2").first().waitFor();
    await picture(page, "user", 1440);
    await page.goto("/new?template=spring-wheel");
    await page.click("#new-try");
    await page.waitForSelector("#new-apply");
    await picture(page, "new", 1276);

    await page.goto(`${CAMPAIGN}/plan?at=2026-12-12`);
    for (const row of [18, 19, 20, 21]) {
        await page.check(`[id="cell-${row}.1"]`, { force: true });
    }
    await page.locator("select[name=op]").first().selectOption("multiply");
    await page.fill("#value-cells", "1.5");
    await page.press("#value-cells", "Enter");
    await page.waitForSelector("#plan-apply");
    await picture(page, "plan", 2100);

    // The session is the same on a phone, in the dark and in Chinese.
    await page.emulateMedia({ colorScheme: "dark" });
    await leaves(page, () => page.goto(`${CAMPAIGN}?curve=week`));
    await page.click("button[value=zh]");
    await page.goto(`${CAMPAIGN}?curve=week`);
    await page.setViewportSize({ width: 390, height: 844 });
    await fits(page, "demo on a phone");
    await page.screenshot({ path: `${screenshots}/phone.png` });
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
