// How people use forms: with the mouse, or with the keyboard alone. A program that acts through
// these hands tests both.

import assert from "node:assert/strict";

// More stops of the Tab key than any page has.
const TABS_MAX = 400;

// What keys write into such a field depends on the browser's language, or on a dialog of the system.
const UNTYPED = ["date", "datetime-local", "file"];

export class Hands {
    // `how` is `mouse` or `keyboard`.
    constructor(page, how) {
        assert.ok(["mouse", "keyboard"].includes(how), how);
        this.page = page;
        this.isKeyboard = how === "keyboard";
    }

    // Moves the focus on, by the Tab key alone, until it is there.
    async reach(target) {
        const element = this.element(target);
        for (let step = 0; step < TABS_MAX; step += 1) {
            if (await element.evaluate((it) => it === document.activeElement)) {
                return element;
            }
            await this.page.keyboard.press("Tab");
        }
        return assert.fail(`the keyboard does not reach ${target} of ${this.page.url()}`);
    }

    // Presses a button, a link or a summary.
    async press(target) {
        if (this.isKeyboard) {
            await this.reach(target);
            await this.page.keyboard.press("Enter");
        } else {
            await this.element(target).click();
        }
    }

    // Gives a field a value: a text, an option, or true or false for a check box.
    async enter(target, value) {
        const element = this.element(target);
        const kind = await element.evaluate((it) => it.type);
        if (this.isKeyboard) {
            await this.reach(element);
        }
        if (kind === "checkbox") {
            if (await element.isChecked() !== value) {
                await (this.isKeyboard ? this.page.keyboard.press("Space") : element.click());
            }
        } else if (kind === "file") {
            await element.setInputFiles(value);
        } else if (kind === "select-one") {
            await this.choose(element, value);
        } else if (this.isKeyboard && !UNTYPED.includes(kind)) {
            await this.page.keyboard.press("Control+a");
            await this.page.keyboard.press("Delete");
            // A line break that is typed into a field of one line would send the form.
            const write = kind === "textarea" ? "insertText" : "type";
            await this.page.keyboard[write](String(value));
        } else {
            await element.fill(String(value));
        }
    }

    async choose(element, value) {
        if (!this.isKeyboard) {
            await element.selectOption(value);
            return;
        }
        const steps = await element.evaluate((it, wanted) => {
            const options = [...it.options].map((option) => option.value);
            return options.indexOf(wanted) - it.selectedIndex;
        }, value);
        for (let step = 0; step < Math.abs(steps); step += 1) {
            await this.page.keyboard.press(steps > 0 ? "ArrowDown" : "ArrowUp");
        }
        assert.equal(await element.inputValue(), value);
    }

    // Fills the fields of a form, by their names and in their order, and sends it. A form in a part
    // of the page that is closed is opened first.
    async send(target, values = {}) {
        const form = this.element(target);
        await form.waitFor({ state: "attached" });
        const part = form.locator("xpath=ancestor::details[not(@open)]");
        if (await part.count() > 0) {
            await this.press(part.locator("summary"));
        }
        for (const [name, value] of Object.entries(values)) {
            await this.enter(form.locator(`[name=${name}]`), value);
        }
        await this.press(form.locator("button[type=submit]"));
    }

    element(target) {
        return typeof target === "string" ? this.page.locator(target) : target;
    }
}
