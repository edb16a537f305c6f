// What programs that open the console in Chromium share: visitors whose pages report what is wrong,
// and looks at pages on a desk and on a phone. The programs are called with
//
//     PROGRAM ORIGIN SCREENSHOTS PAGE...

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [origin, screenshots, ...pages] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
// What should take moments fails a program after this long. It is a bound for hangs.
const PATIENCE_MS = 120_000;
// The pause before a page is loaded again. The ledger is settled several times a second.
const SETTLING_MS = 250;
const SIZES = {
    desk: { viewport: { width: 1280, height: 900 } },
    phone: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
};
const LIGHT = { locale: "en-GB", colorScheme: "light" };
const DARK = { locale: "zh-CN", colorScheme: "dark" };
// Whoever looks at pages: at those with an even number, or at the others.
const VISITORS = [
    ["desk", LIGHT, 0], ["phone", DARK, 0],
    ["desk", DARK, 1], ["phone", LIGHT, 1],
];

export const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    // Without a graphics card, drawing by the processor alone costs least.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});

// What was wrong.
export const faults = [];

// Refusals that a program provokes, as statuses of HTTP. Chromium writes an error for each.
const provoked = new Set();

export function provokes(...statuses) {
    statuses.forEach((status) => provoked.add(status));
}

function isProvoked(text) {
    const [, status] = text.match(/the server responded with a status of (\d+)/) ?? [];
    return provoked.has(Number(status));
}

// Pages that ask before they are left, and shall be.
const leaving = new Set();

export async function leaves(page, act) {
    leaving.add(page);
    await act();
    assert.ok(!leaving.has(page), "the page did not ask");
}

// A new visitor, whose pages report violations of the policy, errors of scripts, and dialogs, which
// no page of the console opens.
export async function visitor(options) {
    // Certificates of tests are of no authority that the browser knows.
    const known = { baseURL: origin, ignoreHTTPSErrors: true };
    const context = await browser.newContext({ ...known, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    await context.exposeFunction("violated", (what) => faults.push(`policy: ${what}`));
    await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
            window.violated(`${location.pathname}: ${event.violatedDirective} ${event.blockedURI}`);
        });
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => faults.push(`${page.url()}: ${error}`));
    page.on("dialog", (dialog) => {
        // Whoever leaves with a draft is asked; a program that means to leave says so.
        if (dialog.type() === "beforeunload" && leaving.has(page)) {
            leaving.delete(page);
            dialog.accept();
            return;
        }
        faults.push(`${page.url()}: a dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    page.on("console", (message) => {
        const isFault = ["error", "warning"].includes(message.type());
        if (isFault && !isProvoked(message.text())) {
            faults.push(`${page.url()}: ${message.text()}`);
        }
    });
    return page;
}

// Signs in by a name, or by a token where the server knows identities. It lands on the page that was
// asked for before, or on the first one.
export async function signIn(page, who = "olga") {
    if (!new URL(page.url(), origin).pathname.startsWith("/sign-in")) {
        await page.goto("/sign-in");
    }
    await page.fill("#name, #token", who);
    await page.press("#name, #token", "Enter");
    await page.waitForSelector(".who");
}

// Waits until the contents of the page have a text.
export async function shows(page, text) {
    await page.locator("main", { hasText: text }).waitFor();
}

// Loads a page until its contents have a text: lists have what was done once it is settled.
export async function settles(page, path, text) {
    const end = Date.now() + PATIENCE_MS;
    await page.goto(path);
    while (!(await page.locator("main").innerText()).includes(text)) {
        assert.ok(Date.now() < end, `${path} never shows ${text}`);
        await page.waitForTimeout(SETTLING_MS);
        await page.goto(path);
    }
}

// Writes a picture of the whole page if TOMBOLA_SCREENSHOTS is set.
export async function photograph(page, called) {
    if (process.env.TOMBOLA_SCREENSHOTS) {
        await page.screenshot({ path: `${screenshots}/${called}.png`, fullPage: true });
    }
}

export async function accessible(page, where) {
    // Not as a script of the page, which the policy would refuse.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(
        // Nothing is said of what is right, which would take a third longer.
        (values) => window.axe.run({
            runOnly: { type: "tag", values }, resultTypes: ["violations"],
        }),
        RULES,
    );
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    for (const { id, help, nodes } of serious) {
        faults.push(`${where}: ${id}: ${help}: ${nodes.map((node) => node.html).join(" | ")}`);
    }
}

export async function fits(page, where) {
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    const shown = page.viewportSize().width;
    if (width > shown) {
        faults.push(`${where}: ${width} pixels wide on a screen of ${shown}`);
    }
}

// Texts that are keys of messages: no language has them.
async function translated(page, where) {
    const keys = await page.evaluate(() => {
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const found = [];
        while (texts.nextNode()) {
            const text = texts.currentNode.data.trim();
            const isCode = texts.currentNode.parentElement.closest("code, pre, textarea, script");
            if (!isCode && /^[a-z][a-z-]*\.[a-zA-Z_-]+$/.test(text)) {
                found.push(text);
            }
        }
        return found;
    });
    keys.forEach((key) => faults.push(`${where}: ${key} looks like the key of a message`));
}

function name(path) {
    return path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "").slice(0, 40) || "overview";
}

async function look(page, kind, path) {
    const where = `${kind} ${path}`;
    const response = await page.goto(path);
    assert.equal(response.status(), 200, where);
    assert.equal(await page.locator("h1").count(), 1, where);
    await accessible(page, where);
    await fits(page, where);
    await translated(page, where);
    await photograph(page, `${kind}-${name(path)}`);
}

// Every page on a desk and on a phone, one of them light and in English, the other one dark and in
// Chinese. Pages take turns, and another `turn` exchanges them.
export async function everything(who, turn = 0) {
    for (const [kind, manner, parity] of VISITORS) {
        const mine = pages.filter((_, index) => (index + turn) % 2 === parity);
        if (mine.length > 0) {
            const page = await visitor({ ...SIZES[kind], ...manner });
            await signIn(page, who);
            for (const path of mine) {
                await look(page, kind, path);
            }
            await page.context().close();
        }
    }
}
