// One event stream per tab. It says how live it is, and never pretends: a connection that is silent counts as broken.
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

// The part of `EventSource` that is used.
export interface Source {
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent<string>) => void) | null;
  onerror: ((event: Event) => void) | null;
  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}

export interface Listener {
  events: (events: LiveEvent[]) => void;
  gap: () => void;
}

export const STALE_AFTER_MS = 60_000;
// The server's heartbeat comes every 10 s: after two of them went missing the connection is given up.
export const SILENT_AFTER_MS = 25_000;
const LOOK_EVERY_MS = 1000;
// The first of several events is told at once, or nearly; a flood is told four times a second.
const FIRST_GATHER_MS = 40;
const GATHER_MS = 250;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;

export const waitBefore = (tries: number, chance: number): number =>
  Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries) * (0.75 + chance / 2);

export class LiveStream {
  #snapshot: LiveSnapshot = { state: "connecting", lastFrameAt: null };
  #source: Source | null = null;
  #position: string | null = null;
  #tries = 0;
  #openedAt = 0;
  #startedAt = 0;
  #toldAt = 0;
  #gathered: LiveEvent[] = [];
  #watch: ReturnType<typeof setInterval> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #flush: ReturnType<typeof setTimeout> | undefined;
  readonly #watchers = new Set<() => void>();

  constructor(
    private readonly open: (after: string | null) => Source,
    private readonly listener: Listener,
  ) {}

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  readonly snapshot = (): LiveSnapshot => this.#snapshot;

  start(): void {
    this.#startedAt = Date.now();
    this.#watch = setInterval(() => this.#look(), LOOK_EVERY_MS);
    this.#connect();
  }

  stop(): void {
    clearInterval(this.#watch);
    clearTimeout(this.#again);
    clearTimeout(this.#flush);
    this.#drop();
  }

  // What the retry button does.
  readonly retry = (): void => {
    this.#tries = 0;
    clearTimeout(this.#again);
    if (this.#snapshot.state === "paused")
      this.#become({ ...this.#snapshot, state: "reconnecting" });
    this.#connect();
  };

  // Nothing moves until one goes on; then everything is fetched anew.
  readonly pause = (): void => {
    clearTimeout(this.#again);
    clearTimeout(this.#flush);
    this.#flush = undefined;
    this.#gathered.length = 0;
    this.#position = null;
    this.#drop();
    this.#become({ ...this.#snapshot, state: "paused" });
  };

  #connect(): void {
    this.#drop();
    this.#openedAt = Date.now();
    const source = this.open(this.#position);
    this.#source = source;
    source.onmessage = (message) => this.#heard(message);
    source.addEventListener("heartbeat", (message) => this.#frame(message));
    source.addEventListener("resync", (message) => {
      this.#frame(message);
      this.listener.gap();
    });
    // A browser gives up for good on some errors and comes again by itself on others: we always do it ourselves.
    source.onerror = () => this.#broken();
  }

  #heard(message: MessageEvent<string>): void {
    this.#frame(message);
    this.#gathered.push(JSON.parse(message.data) as LiveEvent);
    const since = Date.now() - this.#toldAt;
    this.#flush ??= setTimeout(
      () => {
        this.#flush = undefined;
        this.#toldAt = Date.now();
        this.listener.events(this.#gathered.splice(0));
      },
      Math.max(FIRST_GATHER_MS, GATHER_MS - since),
    );
  }

  #frame(message: MessageEvent<string>): void {
    // Without a position we may have missed something while we were away.
    const missed = this.#position === null && this.#snapshot.state !== "connecting";
    if (message.lastEventId) this.#position = message.lastEventId;
    this.#tries = 0;
    this.#become({ state: "live", lastFrameAt: Date.now() });
    if (missed) this.listener.gap();
  }

  #broken(): void {
    this.#drop();
    if (this.#snapshot.state !== "stale")
      this.#become({ ...this.#snapshot, state: "reconnecting" });
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#connect(), waitBefore(this.#tries++, Math.random()));
  }

  #look(): void {
    if (this.#snapshot.state === "paused") return;
    const now = Date.now();
    const last = this.#snapshot.lastFrameAt ?? this.#startedAt;
    if (now - last >= STALE_AFTER_MS && this.#snapshot.state !== "stale")
      this.#become({ ...this.#snapshot, state: "stale" });
    const silentSince = Math.max(this.#openedAt, this.#snapshot.lastFrameAt ?? 0);
    if (this.#source && now - silentSince >= SILENT_AFTER_MS) this.#broken();
  }

  #drop(): void {
    this.#source?.close();
    this.#source = null;
  }

  #become(next: LiveSnapshot): void {
    this.#snapshot = next;
    for (const watcher of this.#watchers) watcher();
  }
}
