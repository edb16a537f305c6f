// Selects cells of the grid of the plan editor: rectangles by mouse, by Shift and a click, and by
// the keyboard. Cells are check boxes, so everything here can be done without it, cell by cell.
//
//     arrows, Home, End    go to another cell; with Shift, select all from where it began
//     Space                selects the cell, or not
//     Ctrl+A, Escape       selects all cells, or none
//
// It also warns those who leave the page with a draft.
"use strict";

(() => {
    // Where a rectangle began, and what was selected before.
    let anchor = null;
    let before = null;
    // The state that dragging gives; null if nobody drags.
    let dragged = null;
    // The press of the mouse has selected: its click shall not.
    let isPressed = false;

    function grid() {
        return document.querySelector("[data-grid]");
    }

    function rows() {
        const found = [...(grid()?.tBodies[0]?.rows ?? [])];
        return found.map((row) => [...row.querySelectorAll("input[name=cell]")]);
    }

    function cells() {
        return rows().flat().filter((cell) => !cell.disabled);
    }

    function place(cell) {
        const all = rows();
        const row = all.findIndex((candidates) => candidates.includes(cell));
        return row < 0 ? null : { row, column: all[row].indexOf(cell) };
    }

    function count() {
        const output = document.querySelector("[data-selected]");
        const selected = cells().filter((cell) => cell.checked).length;
        if (output) {
            const text = output.dataset.selected.replace("{}", selected);
            output.textContent = selected === 0 ? "" : text;
        }
    }

    // One cell is a stop of the Tab key; arrows go on from there.
    function stopAt(cell) {
        for (const other of cells()) {
            other.tabIndex = other === cell ? 0 : -1;
        }
    }

    function begin(cell) {
        anchor = place(cell);
        before = new Set(cells().filter((other) => other.checked));
    }

    // Gives the rectangle from the anchor to a cell a state; other cells are as they were before.
    function stretch(cell, state) {
        const end = place(cell);
        if (!anchor || !end) {
            return;
        }
        const within = (one, a, b) => one >= Math.min(a, b) && one <= Math.max(a, b);
        rows().forEach((candidates, row) => {
            candidates.forEach((candidate, column) => {
                const isInside = within(row, anchor.row, end.row)
                    && within(column, anchor.column, end.column);
                if (!candidate.disabled) {
                    candidate.checked = isInside ? state : before.has(candidate);
                }
            });
        });
        count();
    }

    function target(key, from) {
        const all = rows();
        const steps = {
            ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
        };
        if (key === "Home" || key === "End") {
            const column = all.map((candidates) => candidates[from.column]);
            const open = column.filter((cell) => !cell.disabled);
            return key === "Home" ? open[0] : open[open.length - 1];
        }
        const [down, right] = steps[key] ?? [0, 0];
        let { row, column } = from;
        do {
            row += down;
            column += right;
        } while (all[row]?.[column]?.disabled);
        return all[row]?.[column];
    }

    document.addEventListener("keydown", (event) => {
        const cell = event.target;
        const from = grid()?.contains(cell) ? place(cell) : null;
        if (!from || event.altKey) {
            return;
        }
        if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
            cells().forEach((other) => { other.checked = true; });
        } else if (event.key === "Escape") {
            cells().forEach((other) => { other.checked = false; });
        } else if (/^(Arrow|Home$|End$)/.test(event.key)) {
            const next = target(event.key, from);
            if (next) {
                if (event.shiftKey && !anchor) {
                    begin(cell);
                }
                stopAt(next);
                next.focus();
                if (event.shiftKey) {
                    stretch(next, true);
                } else {
                    anchor = null;
                }
            }
        } else {
            if (event.key === " ") {
                anchor = null;
            }
            return;
        }
        event.preventDefault();
        count();
    });

    function cellOf(event) {
        const box = event.target.closest?.("[data-grid] td");
        const cell = box?.querySelector("input[name=cell]");
        return cell && !cell.disabled ? cell : null;
    }

    // Touch scrolls; a tap selects one cell.
    document.addEventListener("pointerdown", (event) => {
        const cell = cellOf(event);
        isPressed = Boolean(cell) && event.pointerType === "mouse" && event.button === 0;
        if (!isPressed) {
            return;
        }
        if (event.shiftKey && anchor) {
            dragged = true;
        } else {
            begin(cell);
            dragged = !cell.checked;
        }
        stretch(cell, dragged);
        stopAt(cell);
        cell.focus();
    });

    // No text is selected while cells are.
    document.addEventListener("mousedown", (event) => {
        if (cellOf(event) && isPressed) {
            event.preventDefault();
        }
    });

    document.addEventListener("pointerover", (event) => {
        const cell = cellOf(event);
        if (cell && dragged !== null) {
            stretch(cell, dragged);
        }
    });

    document.addEventListener("pointerup", () => { dragged = null; });

    // The click that follows would turn the cell over once more. A key's click has no detail.
    document.addEventListener("click", (event) => {
        if (cellOf(event) && isPressed && event.detail > 0) {
            event.preventDefault();
        }
    });

    document.addEventListener("change", (event) => {
        if (grid()?.contains(event.target)) {
            count();
        }
    });

    document.addEventListener("focusin", (event) => {
        if (grid()?.contains(event.target) && place(event.target)) {
            stopAt(event.target);
        }
    });

    // Those who apply or discard the draft know what they do.
    let isMeant = false;

    document.addEventListener("click", (event) => {
        isMeant = Boolean(event.target.closest?.("a[data-leave]"));
    });

    document.addEventListener("submit", (event) => {
        isMeant = event.target.matches("[data-leave]");
    });

    window.addEventListener("beforeunload", (event) => {
        if (document.querySelector("[data-draft]") && !isMeant) {
            event.preventDefault();
        }
    });

    // The page stays, and with it a draft that is not applied.
    for (const stays of ["htmx:beforeSwap", "htmx:sendError", "htmx:timeout"]) {
        document.addEventListener(stays, () => { isMeant = false; });
    }

    function ready() {
        anchor = null;
        const focused = document.activeElement;
        stopAt(place(focused) ? focused : cells()[0]);
        count();
    }

    document.addEventListener("htmx:afterSettle", ready);
    ready();
})();
