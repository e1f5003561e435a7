// The event stream of a tab and its state. A connection without heartbeats counts as broken.
export type LiveState = "connecting" | "live" | "reconnecting" | "stale" | "paused";

export interface LiveEvent {
  position: string;
  at: string;
  event: string;
  task_id: number | null;
  mission_id: number | null;
  batch_id: number | null;
  pipeline: string | null;
}

export interface LiveSnapshot {
  state: LiveState;
  lastFrameAt: number | null;
}

// The part of EventSource that LiveStream uses.
export interface EventSourceLike {
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent<string>) => void) | null;
  onerror: ((event: Event) => void) | null;
  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}

export interface StreamListener {
  onEvents: (events: LiveEvent[]) => void;
  onGap: () => void;
}

export const STALE_AFTER_MS = 60_000;
// The server sends a heartbeat every 10 s: after two missing ones the client reconnects.
export const SILENT_AFTER_MS = 25_000;
const SILENCE_CHECK_MS = 1000;
// Events are delivered in batches: the first almost at once, then at most four times a second.
const MIN_BATCH_MS = 40;
const BATCH_MS = 250;
const MIN_RECONNECT_MS = 1000;
const MAX_RECONNECT_MS = 30_000;

export const reconnectDelay = (attempts: number, random: number): number =>
  Math.min(MAX_RECONNECT_MS, MIN_RECONNECT_MS * 2 ** attempts) * (0.75 + random / 2);

export class LiveStream {
  #snapshot: LiveSnapshot = { state: "connecting", lastFrameAt: null };
  #source: EventSourceLike | null = null;
  #position: string | null = null;
  #attempts = 0;
  #openedAt = 0;
  #startedAt = 0;
  #flushedAt = 0;
  #pending: LiveEvent[] = [];
  #silenceTimer: ReturnType<typeof setInterval> | undefined;
  #reconnectTimer: ReturnType<typeof setTimeout> | undefined;
  #flushTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #subscribers = new Set<() => void>();

  constructor(
    private readonly open: (after: string | null) => EventSourceLike,
    private readonly listener: StreamListener,
  ) {}

  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  readonly snapshot = (): LiveSnapshot => this.#snapshot;

  start(): void {
    this.#startedAt = Date.now();
    this.#silenceTimer = setInterval(() => this.#checkSilence(), SILENCE_CHECK_MS);
    this.#connect();
  }

  stop(): void {
    clearInterval(this.#silenceTimer);
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#flushTimer);
    this.#closeSource();
  }

  // Reconnects at once.
  readonly retry = (): void => {
    this.#attempts = 0;
    clearTimeout(this.#reconnectTimer);
    if (this.#snapshot.state === "paused")
      this.#setSnapshot({ ...this.#snapshot, state: "reconnecting" });
    this.#connect();
  };

  // Closes the stream until retry, which then reports a gap.
  readonly pause = (): void => {
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#flushTimer);
    this.#flushTimer = undefined;
    this.#pending.length = 0;
    this.#position = null;
    this.#closeSource();
    this.#setSnapshot({ ...this.#snapshot, state: "paused" });
  };

  #connect(): void {
    this.#closeSource();
    this.#openedAt = Date.now();
    const source = this.open(this.#position);
    this.#source = source;
    source.onmessage = (message) => this.#receive(message);
    source.addEventListener("heartbeat", (message) => this.#markLive(message));
    source.addEventListener("resync", (message) => {
      this.#markLive(message);
      this.listener.onGap();
    });
    // Browsers reconnect after some errors and give up after others; the client always reconnects.
    source.onerror = () => this.#reconnectLater();
  }

  #receive(message: MessageEvent<string>): void {
    this.#markLive(message);
    this.#pending.push(JSON.parse(message.data) as LiveEvent);
    const since = Date.now() - this.#flushedAt;
    this.#flushTimer ??= setTimeout(
      () => {
        this.#flushTimer = undefined;
        this.#flushedAt = Date.now();
        this.listener.onEvents(this.#pending.splice(0));
      },
      Math.max(MIN_BATCH_MS, BATCH_MS - since),
    );
  }

  #markLive(message: MessageEvent<string>): void {
    // Without a position, events may have been missed while disconnected.
    const missed = this.#position === null && this.#snapshot.state !== "connecting";
    if (message.lastEventId) this.#position = message.lastEventId;
    this.#attempts = 0;
    this.#setSnapshot({ state: "live", lastFrameAt: Date.now() });
    if (missed) this.listener.onGap();
  }

  #reconnectLater(): void {
    this.#closeSource();
    if (this.#snapshot.state !== "stale")
      this.#setSnapshot({ ...this.#snapshot, state: "reconnecting" });
    clearTimeout(this.#reconnectTimer);
    this.#reconnectTimer = setTimeout(
      () => this.#connect(),
      reconnectDelay(this.#attempts++, Math.random()),
    );
  }

  #checkSilence(): void {
    if (this.#snapshot.state === "paused") return;
    const now = Date.now();
    const last = this.#snapshot.lastFrameAt ?? this.#startedAt;
    if (now - last >= STALE_AFTER_MS && this.#snapshot.state !== "stale")
      this.#setSnapshot({ ...this.#snapshot, state: "stale" });
    const silentSince = Math.max(this.#openedAt, this.#snapshot.lastFrameAt ?? 0);
    if (this.#source && now - silentSince >= SILENT_AFTER_MS) this.#reconnectLater();
  }

  #closeSource(): void {
    this.#source?.close();
    this.#source = null;
  }

  #setSnapshot(next: LiveSnapshot): void {
    this.#snapshot = next;
    for (const subscriber of this.#subscribers) subscriber();
  }
}
