// Single keys, and g followed by one. Never while one writes, and never over a key of the browser's own.
import { useEffect, useRef } from "react";

export type Shortcuts = Record<string, () => void>;

const SEQUENCE_MS = 1500;
const KEPT_AS = "regente.single-keys";

// Whoever speaks to the machine, or hits keys by accident, can switch the single ones off (WCAG 2.1.4).
export const singleKeysOn = (): boolean => localStorage.getItem(KEPT_AS) !== "off";
export const switchSingleKeys = (on: boolean): void =>
  localStorage.setItem(KEPT_AS, on ? "on" : "off");

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName));

const isPaletteKey = (event: KeyboardEvent): boolean =>
  (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k";

const takesSingleKeys = (event: KeyboardEvent): boolean =>
  !(event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) &&
  document.querySelector("[role=dialog]") === null &&
  singleKeysOn();

export function makeListener(shortcuts: () => Shortcuts): (event: KeyboardEvent) => void {
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
    const listen = makeListener(() => latest.current);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
