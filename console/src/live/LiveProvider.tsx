// Invalidates the queries that an event may have changed; only mounted ones are refetched.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useSyncExternalStore,
} from "react";
import { decisionsKey } from "../api/decisions";
import { batchesKey, eventsKey, failuresKey, runnersKey } from "../api/engine";
import { fleetKeys } from "../api/fleet";
import { missionKeys } from "../api/missions";
import { statsKey } from "../api/overview";
import { resultsKey } from "../api/pages";
import { settingsKey } from "../api/settings";
import { urlOf } from "../app/basePath";
import { pagesInEvents } from "../app/builtinPages";
import { type LiveEvent, type LiveSnapshot, LiveStream } from "./stream";

type EventsListener = (events: LiveEvent[]) => void;

interface Live {
  stream: LiveStream;
  listeners: Set<EventsListener>;
}

const Context = createContext<Live | null>(null);

const FAILURE_EVENT = /fail|dead|discard|retr/;
const DECISION_EVENT = /held|resolved|cancel/;

function refresh(queries: QueryClient, events: LiveEvent[]): void {
  const invalidate = (queryKey: readonly unknown[]) => void queries.invalidateQueries({ queryKey });
  const missions = new Set(
    events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
  );
  for (const id of missions) invalidate(missionKeys.one(id));
  if (missions.size) invalidate(missionKeys.counts);
  if (events.some(({ batch_id }) => batch_id !== null)) invalidate(batchesKey);
  for (const page of pagesInEvents(events)) invalidate(resultsKey(page));
  if (events.some(({ event }) => FAILURE_EVENT.test(event))) invalidate(failuresKey);
  if (events.some(({ event }) => DECISION_EVENT.test(event))) invalidate(decisionsKey);
  if (events.some(({ event }) => event.startsWith("runner"))) invalidate(runnersKey);
  if (events.some(({ event }) => event === "setting_changed")) invalidate(settingsKey);
  if (events.some(({ event, pipeline }) => pipeline === null || !/^task_/.test(event)))
    invalidate(fleetKeys.all);
  for (const key of [statsKey, eventsKey, ["orchestrator"]]) invalidate(key);
}

const open = (after: string | null): EventSource =>
  new EventSource(urlOf(after ? `api/stream?after=${encodeURIComponent(after)}` : "api/stream"));

export function LiveProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const live = useMemo<Live>(() => {
    const listeners = new Set<EventsListener>();
    const stream = new LiveStream(open, {
      onEvents: (events) => {
        refresh(queries, events);
        for (const listener of listeners) listener(events);
      },
      onGap: () => void queries.invalidateQueries(),
    });
    return { stream, listeners };
  }, [queries]);
  useEffect(() => {
    live.stream.start();
    return () => live.stream.stop();
  }, [live]);
  return <Context value={live}>{children}</Context>;
}

function useLiveContext(): Live {
  const live = useContext(Context);
  if (!live) throw new Error("useLive needs a LiveProvider");
  return live;
}

export function useLive(): LiveSnapshot & { retry: () => void; pause: () => void } {
  const { stream } = useLiveContext();
  return {
    ...useSyncExternalStore(stream.subscribe, stream.snapshot),
    retry: stream.retry,
    pause: stream.pause,
  };
}

export function useLiveEvents(listener: EventsListener): void {
  const { listeners } = useLiveContext();
  useEffect(() => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, [listeners, listener]);
}

export function useMissionEvents(listener: (ids: Set<number>) => void): void {
  useLiveEvents(
    useCallback(
      (events) => {
        const ids = new Set(
          events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
        );
        if (ids.size) listener(ids);
      },
      [listener],
    ),
  );
}
