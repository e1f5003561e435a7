import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createKeyListener, setSingleKeysEnabled } from "./keyboard";

describe("the keyboard", () => {
  const acts = { "g m": vi.fn(), "?": vi.fn(), "mod+k": vi.fn() };
  let listen: (event: KeyboardEvent) => void;
  const press = (key: string, options: KeyboardEventInit = {}, target: Element = document.body) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...options }));

  beforeEach(() => {
    for (const act of Object.values(acts)) act.mockReset();
    listen = createKeyListener(() => acts);
    addEventListener("keydown", listen);
  });
  afterEach(() => {
    removeEventListener("keydown", listen);
    document.body.replaceChildren();
  });

  it("handles one key, or two in a row", () => {
    press("?");
    press("m");
    expect(acts["g m"]).not.toHaveBeenCalled();
    press("g");
    press("m");
    expect([acts["?"].mock.calls.length, acts["g m"].mock.calls.length]).toEqual([1, 1]);
  });

  it("ignores single keys in fields and dialogs", () => {
    const input = document.body.appendChild(document.createElement("input"));
    press("?", {}, input);
    input.remove();
    document.body.appendChild(document.createElement("div")).setAttribute("role", "dialog");
    press("?");
    expect(acts["?"]).not.toHaveBeenCalled();
  });

  it("single keys can be turned off, Ctrl K cannot", () => {
    setSingleKeysEnabled(false);
    press("?");
    press("k", { ctrlKey: true });
    setSingleKeysEnabled(true);
    expect([acts["?"].mock.calls.length, acts["mod+k"].mock.calls.length]).toEqual([0, 1]);
  });

  it("opens the palette from a field too", () => {
    const input = document.body.appendChild(document.createElement("input"));
    press("k", { ctrlKey: true }, input);
    press("K", { metaKey: true });
    press("?", { ctrlKey: true });
    expect([acts["mod+k"].mock.calls.length, acts["?"].mock.calls.length]).toEqual([2, 0]);
  });
});
