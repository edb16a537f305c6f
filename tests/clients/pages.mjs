// Looks at pages of the console as somebody with a token, which is in the variable TOKEN.
//
//     pages.mjs ORIGIN SCREENSHOTS PAGE...
//
// It prints `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { browser, everything, faults } from "./visits.mjs";

const [origin] = process.argv.slice(2);

try {
    await everything(async (page) => {
        await page.goto("/sign-in");
        await page.fill("#token", process.env.TOKEN);
        await page.press("#token", "Enter");
        await page.waitForURL(`${origin}/`);
    });
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
