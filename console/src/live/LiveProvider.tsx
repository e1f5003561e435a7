// Turns what the stream says into fresh data: of what changed, only what is on the screen is fetched again.
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
import { settingsKey, statsKey } from "../api/operations";
import { kindsHeard, resultsKey } from "../api/results";
import { addressOf } from "../app/root";
import { type LiveEvent, type LiveSnapshot, LiveStream } from "./stream";

type MissionsHeard = (ids: Set<number>) => void;

interface Live {
  stream: LiveStream;
  missionsHeard: Set<MissionsHeard>;
}

const Context = createContext<Live | null>(null);

const FAILED = /fail|dead|discard|retr/;

function refresh(queries: QueryClient, events: LiveEvent[]): void {
  const stale = (queryKey: readonly unknown[]) => void queries.invalidateQueries({ queryKey });
  const missions = new Set(
    events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
  );
  for (const id of missions) stale(missionKeys.one(id));
  if (missions.size) stale(missionKeys.counts);
  if (events.some(({ batch_id }) => batch_id !== null)) stale(batchesKey);
  for (const kind of kindsHeard(events)) stale(resultsKey(kind));
  if (events.some(({ event }) => FAILED.test(event))) stale(failuresKey);
  if (events.some(({ event }) => event.startsWith("runner"))) stale(runnersKey);
  if (events.some(({ event }) => event === "setting_changed")) stale(settingsKey);
  if (events.some(({ event, pipeline }) => pipeline === null || !/^task_/.test(event)))
    stale(fleetKeys.all);
  for (const key of [statsKey, eventsKey, ["orchestrator"]]) stale(key);
}

const open = (after: string | null): EventSource =>
  new EventSource(
    addressOf(after ? `api/stream?after=${encodeURIComponent(after)}` : "api/stream"),
  );

export function LiveProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const live = useMemo<Live>(() => {
    const missionsHeard = new Set<MissionsHeard>();
    const stream = new LiveStream(open, {
      events: (events) => {
        refresh(queries, events);
        const ids = new Set(
          events.flatMap(({ mission_id }) => (mission_id === null ? [] : [mission_id])),
        );
        if (ids.size) for (const hear of missionsHeard) hear(ids);
      },
      gap: () => void queries.invalidateQueries(),
    });
    return { stream, missionsHeard };
  }, [queries]);
  useEffect(() => {
    live.stream.start();
    return () => live.stream.stop();
  }, [live]);
  return <Context value={live}>{children}</Context>;
}

function useLiveContext(): Live {
  const live = useContext(Context);
  if (!live) throw new Error("there is no LiveProvider around this");
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

export function useMissionsHeard(hear: MissionsHeard): void {
  const { missionsHeard } = useLiveContext();
  useEffect(() => {
    missionsHeard.add(hear);
    return () => void missionsHeard.delete(hear);
  }, [missionsHeard, hear]);
}
