// Keyboard shortcuts: Ctrl K, single keys, and g followed by a key. Single keys are ignored in text
// fields and dialogs.
import { useEffect, useRef } from "react";

export type Shortcuts = Record<string, () => void>;

const SEQUENCE_MS = 1500;
const STORAGE_KEY = "regente.single-keys";

// Single-key shortcuts can be turned off (WCAG 2.1.4).
export const singleKeysEnabled = (): boolean => localStorage.getItem(STORAGE_KEY) !== "off";
export const setSingleKeysEnabled = (on: boolean): void =>
  localStorage.setItem(STORAGE_KEY, on ? "on" : "off");

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName));

const isPaletteKey = (event: KeyboardEvent): boolean =>
  (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k";

const takesSingleKeys = (event: KeyboardEvent): boolean =>
  !(event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) &&
  document.querySelector("[role=dialog]") === null &&
  singleKeysEnabled();

export function createKeyListener(shortcuts: () => Shortcuts): (event: KeyboardEvent) => void {
  let prefix: { key: string; at: number } | null = null;
  const actionFor = (event: KeyboardEvent): (() => void) | undefined => {
    if (isPaletteKey(event)) return shortcuts()["mod+k"];
    if (!takesSingleKeys(event)) return undefined;
    const sequence = prefix && event.timeStamp - prefix.at < SEQUENCE_MS ? `${prefix.key} ` : "";
    const action = shortcuts()[sequence + event.key];
    prefix = !action && event.key === "g" ? { key: "g", at: event.timeStamp } : null;
    return action;
  };
  return (event) => {
    const action = actionFor(event);
    if (action) event.preventDefault();
    action?.();
  };
}

export function useKeyboard(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    const listen = createKeyListener(() => latest.current);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
