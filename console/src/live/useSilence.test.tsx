import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveProvider } from "./LiveProvider";
import { SILENT_EVENTS_MS, useSilence } from "./useSilence";

let opened: FakeSource;

class FakeSource {
  onopen = null;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror = null;
  heartbeat: ((event: MessageEvent<string>) => void) | null = null;
  constructor() {
    opened = this;
  }
  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void {
    if (name === "heartbeat") this.heartbeat = listener;
  }
  close(): void {}
}

function Providers({ children }: { children: ReactNode }) {
  return (
    <QueryClientProvider client={new QueryClient()}>
      <LiveProvider>{children}</LiveProvider>
    </QueryClientProvider>
  );
}

const frame = (data: object) => new MessageEvent("message", { data: JSON.stringify(data) });

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", FakeSource);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

// Lets the time pass with the heartbeats of a healthy stream.
const wait = (seconds: number) =>
  act(() => {
    for (let passed = 0; passed < seconds; passed += 5) {
      vi.advanceTimersByTime(5000);
      opened.heartbeat?.(frame({ state: "live" }));
    }
  });

test("warns after a minute without an event of the batch, although heartbeats arrive", () => {
  const { result } = renderHook(() => useSilence(7), { wrapper: Providers });
  const start = Date.now();
  wait(55);
  expect(result.current).toBeNull();
  wait(5);
  expect(result.current).toBe(start);
  expect(SILENT_EVENTS_MS).toBe(60_000);
});

test("an event of the batch ends the warning, one of another batch does not", () => {
  const { result } = renderHook(() => useSilence(7), { wrapper: Providers });
  wait(60);
  const event = { event: "task_completed", task_id: 1, mission_id: null, pipeline: "documents" };
  act(() => opened.onmessage?.(frame({ ...event, batch_id: 8 })));
  wait(5);
  expect(result.current).not.toBeNull();
  act(() => opened.onmessage?.(frame({ ...event, batch_id: 7 })));
  wait(5);
  expect(result.current).toBeNull();
});
