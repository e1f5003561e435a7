import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type EventSourceLike,
  type LiveEvent,
  LiveStream,
  reconnectDelay,
  STALE_AFTER_MS,
} from "./stream";

class FakeSource implements EventSourceLike {
  onopen: EventSourceLike["onopen"] = null;
  onmessage: EventSourceLike["onmessage"] = null;
  onerror: EventSourceLike["onerror"] = null;
  closed = false;
  readonly named = new Map<string, (event: MessageEvent<string>) => void>();

  constructor(readonly after: string | null) {}

  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void {
    this.named.set(name, listener);
  }

  close(): void {
    this.closed = true;
  }

  heartbeat(position: string): void {
    this.named.get("heartbeat")?.(
      new MessageEvent("heartbeat", { data: "{}", lastEventId: position }),
    );
  }

  say(event: Partial<LiveEvent>, position: string): void {
    this.onmessage?.(
      new MessageEvent("message", { data: JSON.stringify(event), lastEventId: position }),
    );
  }

  break(): void {
    this.onerror?.(new Event("error"));
  }
}

describe("the live stream", () => {
  const sources: FakeSource[] = [];
  const received: LiveEvent[][] = [];
  const gap = vi.fn();
  let stream: LiveStream;
  const latest = () => sources.at(-1)!;

  beforeEach(() => {
    vi.useFakeTimers();
    sources.length = received.length = 0;
    gap.mockReset();
    const open = (after: string | null) => {
      sources.push(new FakeSource(after));
      return latest();
    };
    stream = new LiveStream(open, {
      onEvents: (events) => received.push(events),
      onGap: gap,
    });
    stream.start();
  });

  afterEach(() => {
    stream.stop();
    vi.useRealTimers();
  });

  it("is live after the first frame", () => {
    expect(stream.snapshot().state).toBe("connecting");
    latest().heartbeat("1-1");
    expect(stream.snapshot()).toEqual({ state: "live", lastFrameAt: Date.now() });
    expect(gap).not.toHaveBeenCalled();
  });

  it("delivers events that arrive together as one batch", () => {
    latest().say({ mission_id: 1 }, "1-1");
    latest().say({ mission_id: 2 }, "1-2");
    vi.advanceTimersByTime(500);
    expect(received.map((events) => events.map(({ mission_id }) => mission_id))).toEqual([[1, 2]]);
  });

  it("delivers the first event at once, and a flood a few times a second", () => {
    latest().say({ mission_id: 1 }, "1-1");
    vi.advanceTimersByTime(50);
    expect(received).toHaveLength(1);
    for (let number = 2; number < 102; number++) {
      latest().say({ mission_id: number }, `1-${number}`);
      vi.advanceTimersByTime(10);
    }
    vi.advanceTimersByTime(500);
    expect(received.flat()).toHaveLength(101);
    expect(received.length).toBeLessThan(8);
  });

  it("receives nothing while paused, and reports a gap when resumed", () => {
    latest().heartbeat("1-1");
    stream.pause();
    expect(latest().closed).toBe(true);
    vi.advanceTimersByTime(STALE_AFTER_MS * 2);
    expect(stream.snapshot().state).toBe("paused");
    expect(sources).toHaveLength(1);
    stream.retry();
    expect(latest().after).toBeNull();
    latest().heartbeat("5-5");
    expect(stream.snapshot().state).toBe("live");
    expect(gap).toHaveBeenCalledTimes(1);
  });

  it("reconnects after the last position, with growing delays", () => {
    latest().heartbeat("7-9");
    latest().break();
    expect(stream.snapshot().state).toBe("reconnecting");
    vi.advanceTimersByTime(2000);
    expect(latest().after).toBe("7-9");
    expect(sources[0]!.closed).toBe(true);
    latest().break();
    vi.advanceTimersByTime(1000);
    expect(sources).toHaveLength(2);
    vi.advanceTimersByTime(2000);
    expect(sources).toHaveLength(3);
  });

  it("closes a connection without heartbeats", () => {
    latest().heartbeat("1-1");
    vi.advanceTimersByTime(30_000);
    expect(sources.length).toBeGreaterThan(1);
    expect(stream.snapshot().state).toBe("reconnecting");
  });

  it("is stale after 60 s without a frame, keeps the time of the last one, and is live with the next", () => {
    const at = Date.now();
    latest().heartbeat("1-1");
    vi.advanceTimersByTime(STALE_AFTER_MS - 2000);
    expect(stream.snapshot().state).toBe("reconnecting");
    vi.advanceTimersByTime(2000);
    expect(stream.snapshot()).toEqual({ state: "stale", lastFrameAt: at });
    stream.retry();
    latest().heartbeat("1-5");
    expect(stream.snapshot().state).toBe("live");
  });

  it("is stale when no frame was ever received", () => {
    latest().break();
    vi.advanceTimersByTime(STALE_AFTER_MS + 1000);
    expect(stream.snapshot()).toEqual({ state: "stale", lastFrameAt: null });
  });

  it("reports a gap when the server cannot resume from the position", () => {
    latest().heartbeat("1-1");
    latest().named.get("resync")?.(new MessageEvent("resync", { data: "{}", lastEventId: "9-9" }));
    expect(gap).toHaveBeenCalledTimes(1);
  });

  it("reports a gap when it was disconnected before the first position", () => {
    latest().break();
    vi.advanceTimersByTime(2000);
    latest().heartbeat("3-3");
    expect(gap).toHaveBeenCalledTimes(1);
  });

  it("waits at most 30 s, with jitter", () => {
    expect(reconnectDelay(0, 0)).toBe(750);
    expect(reconnectDelay(0, 1)).toBe(1250);
    expect(reconnectDelay(20, 0.5)).toBe(30_000);
  });
});
