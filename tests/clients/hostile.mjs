// Types texts into the console that would be scripts, styles or attributes of their own if a page
// did not escape them, and lets another site try to act and to read.
//
//     hostile.mjs ORIGIN SCREENSHOTS PAGE...
//
// PAGEs are paths. The server has the campaign `wheel` with wins, the envelope `gift`, and no access
// file. The program prints `good`, or fails and says what was wrong.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { Hands } from "./hands.mjs";
import { browser, faults, provokes, settles, shows, signIn, visitor } from "./visits.mjs";

const [origin, , ...pages] = process.argv.slice(2);
const WHEEL = "/campaigns/wheel";

// Each calls what visits.mjs reports as a fault.
const TEXTS = [
    "<script>violated('script')</script>",
    `"><img src=x onerror="violated('image')">`,
    "</title></textarea><svg onload=violated('svg')>",
    `" onfocus="violated('focus')" autofocus x="`,
    "' onmouseover='violated(1)' style='all:unset' x='",
    "javascript:violated('address')//<a href=javascript:violated(1)>",
    `" hx-get="/system" hx-trigger="load" data-stream="/live/overview" x="`,
    "<iframe srcdoc='<script>parent.violated(2)</script>'></iframe>&lt;b&gt;",
];
const [SCRIPT, IMAGE, CLOSER, FOCUS, STYLE, LINK, HTMX, FRAME] = TEXTS;

// Elements and attributes that no page of the console has.
function strangers(own) {
    if (document.contentType !== "text/html") {
        return [];
    }
    const isStrange = (it) => it.getAttributeNames().some((name) => /^on|^style$|^srcdoc$/.test(name))
        || ["IFRAME", "OBJECT", "EMBED", "BASE", "STYLE"].includes(it.tagName.toUpperCase())
        || (it.tagName === "SCRIPT" && !it.src.startsWith(`${own}/assets/`))
        || (it.tagName === "IMG" && !it.src.startsWith(`${own}/assets/`))
        || (it.hasAttribute("hx-get"))
        || (it.href !== undefined && it.tagName === "A" && !it.href.startsWith(`${own}/`))
        || (it.tagName === "FORM" && it.action?.startsWith && !it.action.startsWith(`${own}/`));
    return [...document.querySelectorAll("*")].filter(isStrange).map((it) => it.outerHTML);
}

// Fails if a page has anything that a text has made; gives how many hostile texts it shows.
async function inert(page, where) {
    assert.deepEqual(await page.evaluate(strangers, origin), [], where);
    const contents = await page.content();
    return TEXTS.filter((text) => contents.includes(text.replace(/&/g, "&amp;")
        .replace(/</g, "&lt;").replace(/>/g, "&gt;"))).length;
}

async function done(page, text) {
    await page.locator(".notice.good", { hasText: text }).waitFor();
    await inert(page, text);
}

function file(name, text) {
    return { name, mimeType: "text/csv", buffer: Buffer.from(text) };
}

async function change(page, hands, form, values, reason) {
    await page.goto(`${WHEEL}/change`);
    await hands.send(`main form:has(${form})`, values);
    await page.waitForSelector("form[action$='/apply']");
    await inert(page, form);
    await hands.send("form[action$='/apply']", { reason });
    await done(page, "The change is in force");
}

// Writes hostile texts wherever a form takes some.
async function type(page, hands) {
    await change(page, hands, "[name=end]", { name: CLOSER }, SCRIPT);
    const prizes = [["mug", IMAGE], ["coupon", FOCUS], ["ticket", FRAME]];
    for (const [id, name] of prizes) {
        await change(page, hands, `[name=prize][value=${id}]`, { prize_name: name }, HTMX);
    }
    await page.goto(WHEEL);
    await hands.press("#brake-mug");
    const reason = page.locator(`form.line[action='${WHEEL}/prizes/mug/pause']`);
    const loaded = page.waitForEvent("load");
    await hands.send(reason, { reason: STYLE });
    await loaded;
    for (const user of [SCRIPT, CLOSER, HTMX]) {
        await page.goto(`${WHEEL}/users`);
        await hands.send(`form[role=search][action='${WHEEL}/users']`, { user });
        await page.locator("main h2").first().waitFor();
        await inert(page, user);
        await hands.send("form[action$='/block']", { reason: user });
        await done(page, "The user is blocked");
    }
    await page.goto(`${WHEEL}/codes`);
    await hands.send(`form[action='${WHEEL}/codes/ticket']`, { codes: TEXTS.join("\n") });
    await done(page, "The codes are imported");
    await page.goto(`${WHEEL}/many`);
    const users = TEXTS.map((text) => `"${text.replace(/"/g, '""')}",x`).join("\n");
    await hands.send("form:has([value=grant])", { file: file(`${IMAGE}.csv`, users) });
    await shows(page, "Done: 0 of 8 lines");
    assert.equal(await inert(page, "a report"), TEXTS.length);
    await settles(page, `${WHEEL}/wins`, "deck:1:0");
    const win = page.locator("main form[action$='/deliver']").first();
    await hands.send(win, { reference: LINK });
    await done(page, "The win is marked as delivered");
    await page.goto("/envelopes/gift");
    await hands.send("form[action='/envelopes/gift/cancel']", { typed: SCRIPT, reason: LINK });
    await shows(page, "nothing was done");
    await inert(page, "an id");
    await page.goto("/");
    for (const text of [IMAGE, FOCUS]) {
        await page.fill("#search", text);
        await page.press("#search", "Enter");
        await page.waitForURL(/\/search\?q=/);
        await inert(page, text);
    }
}

// A campaign file with hostile texts: what is wrong with it is shown, and what is right applied.
async function write(page, hands) {
    await page.goto(`${WHEEL}/edit`);
    const text = await page.inputValue("#yaml");
    await page.fill("#yaml", text.replace("id: wheel", `id: ${JSON.stringify(SCRIPT)}`));
    await page.waitForSelector("#checked .bad");
    await inert(page, "an id");
    await page.fill("#yaml", `${JSON.stringify(CLOSER)}: [${TEXTS.join()}`);
    // The check of what was typed before may be there still.
    await hands.press("#new-try");
    for (const text of TEXTS) {
        await shows(page, text);
    }
    assert.equal(await inert(page, "no file"), TEXTS.length);
    const note = `attributes: {note: ${JSON.stringify(HTMX)}, ${JSON.stringify(IMAGE)}: x}`;
    const noted = text.replace(/(- \{?id: coupon)(,?)/, (_, id, comma) => (
        comma ? `${id}, ${note},` : `${id}\n    ${note}`
    ));
    assert.notEqual(noted, text);
    await page.fill("#yaml", noted);
    await hands.press("#new-try");
    await page.waitForSelector("#tried");
    await inert(page, "attributes");
    await page.fill("#new-reason", FRAME);
    await hands.press("#new-apply");
    await done(page, "The campaign is applied");
}

// Addresses that others may send.
async function addresses(page) {
    const text = encodeURIComponent(TEXTS.join(" "));
    for (const address of [
        `/?state=${text}&done=${text}`, `/campaigns/${text}`, `${WHEEL}/draws?user=${text}`,
        `${WHEEL}?curve=${text}`, `${WHEEL}?done=${text}`, `${WHEEL}/schedule?day=${text}`,
        `${WHEEL}/plan?at=${text}&pool=${text}`, `${WHEEL}/history?from=${text}&page=${text}`,
        `/envelopes/${text}`, `/new?template=${text}`, `/search?q=${text}`, `/${text}`,
        `${WHEEL}/proposals/${text}`, `/sign-in?ended=${text}&back=${text}`,
    ]) {
        await page.goto(address);
        await inert(page, address);
    }
    // Signing in leads to pages of the console only.
    for (const back of ["//evil.example", "javascript:violated(3)", "https://evil.example/"]) {
        await page.goto(`/sign-in?back=${encodeURIComponent(back)}`);
        await signIn(page, "igor");
        assert.equal(page.url(), `${origin}/`);
    }
}

// A page of another site, as somebody opens it who is signed in at the console.
async function elsewhere(page) {
    const site = createServer((_, response) => {
        response.setHeader("content-type", "text/html");
        response.end(`<form method="post" action="${origin}${WHEEL}/pause"><button>Win!</button></form>
            <iframe src="${origin}${WHEEL}"></iframe><img src="${origin}${WHEEL}/pause">`);
    });
    site.listen(0);
    await once(site, "listening");
    const { port } = site.address();
    // The first is another origin of the same site: the browser sends the session with its requests.
    for (const host of ["127.0.0.1", "localhost"]) {
        const other = await page.context().newPage();
        await other.goto(`http://${host}:${port}/`);
        const [, frame] = other.frames();
        assert.equal(await frame.locator("#brake").count(), 0, "framed");
        const read = await other.evaluate(async (address) => {
            const fetched = fetch(address, { credentials: "include" });
            const text = await fetched.then((response) => response.text(), () => "");
            const act = { method: "POST", mode: "no-cors", credentials: "include" };
            await fetch(`${address}/pause`, act).catch(() => {});
            return text;
        }, `${origin}${WHEEL}`);
        assert.equal(read, "", "another site reads");
        const popup = other.waitForEvent("popup");
        await other.evaluate((address) => { window.open(address); }, `${origin}${WHEEL}`);
        // A link leads to the page, also from a site whose links bring no session.
        const opened = await popup;
        await opened.waitForURL(`${origin}${WHEEL}`);
        assert.equal(await opened.evaluate(() => window.opener), null);
        const answer = other.waitForResponse((it) => it.url().endsWith("/pause")
            && it.request().isNavigationRequest());
        await other.click("button");
        assert.equal((await answer).status(), 403);
        await other.close();
    }
    site.close();
    await page.goto(WHEEL);
    await page.waitForSelector("#brake.stop");
    assert.equal(await page.evaluate(() => document.cookie), "");
}

try {
    // Addresses and forms that are not right.
    provokes(400, 404, 409);
    const page = await visitor({ locale: "en-GB" });
    const hands = new Hands(page, "mouse");
    await signIn(page, IMAGE);
    await type(page, hands);
    await write(page, hands);
    let shown = 0;
    for (const path of pages) {
        await page.goto(path);
        shown += await inert(page, path);
    }
    assert.ok(shown > 60, `hostile texts are on too few pages: ${shown}`);
    await addresses(page);
    await elsewhere(page);
    assert.deepEqual(faults, []);
    console.log("good");
} finally {
    await browser.close();
}
