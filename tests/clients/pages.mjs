// Looks at pages of the console, as who has the name or token in the variable WHO.
//
//     pages.mjs ORIGIN SCREENSHOTS PAGE...
//
// It prints `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { browser, everything, faults } from "./visits.mjs";

try {
    // browser.mjs takes the other turn.
    await everything(process.env.WHO, 1);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
