// Keeps the numbers of a page fresh. An element with data-stream names an address of server-sent
// events; each event has that part of the page as the server makes it now. Only elements with
// data-live are exchanged, and never the one that has the focus. A hidden page closes its stream.
"use strict";

(() => {
    const PAUSE_MS = 2000;
    let source = null;
    let timer = 0;

    function update(html) {
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

    function open() {
        close();
        const element = document.querySelector("[data-stream]");
        if (!element || document.hidden) {
            return;
        }
        source = new EventSource(element.dataset.stream);
        source.addEventListener("part", (event) => update(event.data));
        source.addEventListener("over", () => location.reload());
        source.addEventListener("error", () => {
            close();
            // Many pages that lost the same server come back one after the other.
            timer = setTimeout(open, PAUSE_MS * (1 + 4 * Math.random()));
        });
    }

    document.addEventListener("visibilitychange", open);
    document.addEventListener("htmx:afterSettle", open);
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", open);
    open();
})();
