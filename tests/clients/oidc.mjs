// Signs in at the console by OpenID Connect in Chromium, and out again.
//
//     oidc.mjs ORIGIN SCREENSHOTS
//
// The provider's page has a button `#login` and a link `#cancel`. It prints `good`, or fails.

import assert from "node:assert/strict";
import { accessible, browser, faults, fits, photograph } from "./visits.mjs";

const [origin] = process.argv.slice(2);

try {
    const context = await browser.newContext({ baseURL: origin, locale: "en-GB" });
    const page = await context.newPage();
    page.on("pageerror", (error) => faults.push(`${page.url()}: ${error}`));
    page.on("console", (message) => {
        // Chromium says of every page with another status than 200 that it failed.
        const isOurs = page.url().startsWith(origin);
        if (isOurs && message.type() === "error" && !message.text().includes("status of 403")) {
            faults.push(`${page.url()}: ${message.text()}`);
        }
    });
    // From the page that was asked for to the provider and back to it.
    await page.goto("/system?a=1");
    await page.waitForURL(/\/sign-in\?back=/);
    await photograph(page, "sign-in-oidc");
    await accessible(page, "sign-in");
    await page.setViewportSize({ width: 360, height: 740 });
    await fits(page, "sign-in");
    await page.click("a[href^='/sign-in/oidc']");
    await page.waitForSelector("#cancel");
    await page.click("#cancel");
    await page.waitForSelector(".sign-in .warn");
    assert.match(await page.textContent(".sign-in .warn"), /cancelled/);
    await page.goto("/system?a=1");
    await page.click("a[href^='/sign-in/oidc']");
    await page.click("#login");
    await page.waitForURL(`${origin}/system?a=1`);
    assert.equal(await page.textContent(".who .name"), "olga");
    // Nothing of the sign-in is left but the session, which scripts cannot read.
    const cookies = await context.cookies();
    assert.deepEqual(cookies.map(({ name }) => name), ["tombola"]);
    assert.ok(cookies.every(({ httpOnly, sameSite }) => httpOnly && sameSite === "Strict"));
    assert.equal(await page.evaluate(() => document.cookie), "");
    // Signing out.
    await page.click(".who button");
    await page.waitForURL(`${origin}/sign-in`);
    await page.goto("/");
    await page.waitForURL(`${origin}/sign-in`);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
