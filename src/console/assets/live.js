// Keeps the numbers of a page fresh, and says what does not arrive. An element with data-stream
// names an address of server-sent events; each event has that part of the page as the server makes
// it now. Only elements with data-live are exchanged, and never the one that has the focus. A hidden
// page closes its stream. The texts are attributes of the body.
"use strict";

(() => {
    const PAUSE_MS = 2000;
    let source = null;
    let isOver = false;
    let timer = 0;
    let lostAt = null;

    // Shows a message above the contents, in place of the one of the same name.
    function say(name, role, text) {
        hush(name);
        const box = document.createElement("div");
        box.id = `live-${name}`;
        box.className = role === "alert" ? "notice bad" : "notice warn";
        box.setAttribute("role", role);
        document.getElementById("main").prepend(box);
        box.textContent = text;
    }

    function hush(name) {
        document.getElementById(`live-${name}`)?.remove();
    }

    function update(html) {
        lostAt = null;
        hush("stale");
        const part = document.createElement("template");
        part.innerHTML = html;
        for (const next of part.content.querySelectorAll("[data-live]")) {
            const key = CSS.escape(next.dataset.live);
            const last = document.querySelector(`#main [data-live="${key}"]`);
            const isSame = !last || last.outerHTML === next.outerHTML;
            if (!isSame && !last.contains(document.activeElement)) {
                last.replaceWith(next);
                window.htmx?.process(next);
            }
        }
    }

    function close() {
        clearTimeout(timer);
        source?.close();
        source = null;
    }

    function lost() {
        close();
        lostAt ??= new Date().toLocaleTimeString(document.documentElement.lang);
        say("stale", "status", document.body.dataset.stale.replace("{}", lostAt));
        // Many pages that lost the same server come back one after the other.
        timer = setTimeout(open, PAUSE_MS * (1 + 4 * Math.random()));
    }

    // The page is loaded once: a second load would abort the first, and a new stream would ask for
    // one.
    function reload() {
        isOver = true;
        close();
        location.reload();
    }

    function open() {
        close();
        const element = document.querySelector("[data-stream]");
        if (isOver || !element || document.hidden) {
            return;
        }
        source = new EventSource(element.dataset.stream);
        source.addEventListener("part", (event) => update(event.data));
        source.addEventListener("over", reload);
        source.addEventListener("error", lost);
    }

    // A click that nothing came of: the network is gone, or something that is not the console
    // answers in its place.
    function unsent() {
        say("unsent", "alert", document.body.dataset.unsent);
    }

    function judge(event) {
        const { target, serverResponse } = event.detail;
        if (target.id === "main" && !serverResponse.includes('id="main"')) {
            event.detail.shouldSwap = false;
            unsent();
        }
    }

    // What was done is said once: not again by a page that is loaded again, or by a link to it.
    const address = new URL(location.href);
    if (address.searchParams.has("done")) {
        address.searchParams.delete("done");
        history.replaceState(history.state, "", address);
    }

    document.addEventListener("htmx:sendError", unsent);
    document.addEventListener("htmx:timeout", unsent);
    // Messages that the server puts above a page have the same id.
    document.addEventListener("htmx:beforeRequest", () => hush("unsent"));
    document.addEventListener("htmx:beforeSwap", judge);
    document.addEventListener("visibilitychange", open);
    document.addEventListener("htmx:afterSettle", open);
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", open);
    open();
})();
