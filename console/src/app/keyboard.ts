// Single keys, and g followed by one. Never while one writes, and never over a key of the browser's own.
import { useEffect, useRef } from "react";

export type Shortcuts = Record<string, () => void>;

const SEQUENCE_MS = 1500;
const KEPT_AS = "regente.single-keys";

// Whoever speaks to the machine, or hits keys by accident, can switch the single ones off (WCAG 2.1.4).
export const singleKeysOn = (): boolean => localStorage.getItem(KEPT_AS) !== "off";
export const switchSingleKeys = (on: boolean): void =>
  localStorage.setItem(KEPT_AS, on ? "on" : "off");

const isWriting = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName));

export function makeListener(shortcuts: () => Shortcuts): (event: KeyboardEvent) => void {
  let begun: { key: string; at: number } | null = null;
  return (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      shortcuts()["mod+k"]?.();
      return;
    }
    const inDialog = document.querySelector("[role=dialog]") !== null;
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      inDialog ||
      isWriting(event.target) ||
      !singleKeysOn()
    )
      return;
    const after = begun && event.timeStamp - begun.at < SEQUENCE_MS ? `${begun.key} ` : "";
    begun = null;
    const act = shortcuts()[after + event.key];
    if (act) {
      event.preventDefault();
      act();
    } else if (event.key === "g") begun = { key: "g", at: event.timeStamp };
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
