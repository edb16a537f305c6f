// Clicks the brake while the network is gone: the page must say that nothing was sent, and that it is
// not live. It goes on once the network is back.
//
//     brake.mjs ORIGIN SCREENSHOTS
//
// The server has the campaign `wheel`, which runs, and no access file. The program prints `good`, or
// fails and says what was wrong.

import assert from "node:assert/strict";
import { accessible, browser, faults, shows, signIn, visitor } from "./visits.mjs";

const WHEEL = "/campaigns/wheel";

// What Chromium and htmx write of requests that do not arrive.
function isProvoked(fault) {
    return /net::ERR_|status of 502|htmx:(afterRequest|sendError)/.test(fault);
}

async function lost(locale, unsent, stale) {
    const page = await visitor({ viewport: { width: 1280, height: 900 }, locale });
    await signIn(page);
    await page.goto(WHEEL);
    await page.waitForSelector("#brake.stop");
    // The network is gone: clicks, and the stream when the page asks for it again.
    await page.route("**/pause", (route) => route.abort());
    await page.route("**/live/**", (route) => route.abort());
    await page.click("#brake");
    await page.locator("main [role=alert]", { hasText: unsent }).waitFor();
    await page.waitForSelector("#brake.stop");
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await page.locator("main #live-stale[role=status]", { hasText: stale }).waitFor();
    await accessible(page, "a page without a network");

    // Something that is not the console answers in its place.
    await page.unroute("**/pause");
    await page.route("**/pause", (route) => route.fulfill({ status: 502, body: "Bad Gateway" }));
    await page.click("#brake");
    await page.locator("main [role=alert]", { hasText: unsent }).waitFor();
    await page.waitForSelector("#brake.stop");

    // The network is back: the same click pauses, and the numbers are live again.
    await page.unroute("**/pause");
    await page.unroute("**/live/**");
    await page.click("#brake");
    await page.waitForSelector("#brake.go");
    await page.waitForSelector("#live-unsent", { state: "detached" });
    await page.waitForSelector("#live-stale", { state: "detached" });
    await page.click("#brake");
    await page.waitForSelector("#brake.stop");
    await page.context().close();
}

// What was done is said once, and not by a page that is loaded again.
async function saidOnce() {
    const page = await visitor({ viewport: { width: 1280, height: 900 }, locale: "en-GB" });
    await signIn(page);
    await page.goto(`${WHEEL}?done=paused&curve=day`);
    await shows(page, "The campaign is paused");
    assert.equal(new URL(page.url()).search, "?curve=day");
    await page.reload();
    await page.waitForSelector("#brake");
    assert.equal(await page.locator(".notice.good").count(), 0);
    await page.context().close();
}

try {
    await lost("en-GB", "Not sent", "Not live since");
    await lost("zh-CN", "未发送", "未更新");
    await saidOnce();
    assert.deepEqual(faults.filter((fault) => !isProvoked(fault)), []);
    console.log("good");
} finally {
    await browser.close();
}
