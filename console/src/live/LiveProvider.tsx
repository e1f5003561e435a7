// Invalidates the queries that an event may have changed; only mounted ones are refetched.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useSyncExternalStore,
} from "react";
import { batchesKey, eventsKey, failuresKey, runnersKey } from "../api/engine";
import { fleetKeys } from "../api/fleet";
import { missionKeys } from "../api/missions";
import { statsKey } from "../api/overview";
import { kindsInEvents, resultsKey } from "../api/results";
import { settingsKey } from "../api/settings";
import { urlOf } from "../app/basePath";
import { type LiveEvent, type LiveSnapshot, LiveStream } from "./stream";

type MissionListener = (ids: Set<number>) => void;

interface Live {
  stream: LiveStream;
  missionListeners: Set<MissionListener>;
}

const Context = createContext<Live | null>(null);

const FAILURE_EVENT = /fail|dead|discard|retr/;

function refresh(queries: QueryClient, events: LiveEvent[]): void {
  const invalidate = (queryKey: readonly unknown[]) => void queries.invalidateQueries({ queryKey });
  const missions = new Set(
    events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
  );
  for (const id of missions) invalidate(missionKeys.one(id));
  if (missions.size) invalidate(missionKeys.counts);
  if (events.some(({ batch_id }) => batch_id !== null)) invalidate(batchesKey);
  for (const kind of kindsInEvents(events)) invalidate(resultsKey(kind));
  if (events.some(({ event }) => FAILURE_EVENT.test(event))) invalidate(failuresKey);
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
    const missionListeners = new Set<MissionListener>();
    const stream = new LiveStream(open, {
      onEvents: (events) => {
        refresh(queries, events);
        const ids = new Set(
          events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
        );
        if (ids.size) for (const listener of missionListeners) listener(ids);
      },
      onGap: () => void queries.invalidateQueries(),
    });
    return { stream, missionListeners };
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

export function useMissionEvents(listener: MissionListener): void {
  const { missionListeners } = useLiveContext();
  useEffect(() => {
    missionListeners.add(listener);
    return () => void missionListeners.delete(listener);
  }, [missionListeners, listener]);
}
