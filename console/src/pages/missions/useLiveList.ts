// Refreshes the mission list on events. A short list is refetched; of a long one, only the visible rows
// that changed. While the pointer is over the rows none is added or moved; a button offers newer ones.
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";
import type { Schemas } from "../../api/client";
import { type Mission, missionKeys, type missionListQuery, missionQuery } from "../../api/missions";
import { useMissionEvents } from "../../live/LiveProvider";

type Page = Schemas["CountedPage_Mission_"];
type ListKey = ReturnType<typeof missionListQuery>["queryKey"];
export type MissionPages = InfiniteData<Page, string | null>;

const PAGES_AT_ONCE = 2;
const ROWS_AT_ONCE = 30;

export const withMission = (pages: MissionPages, fresh: Mission): MissionPages => ({
  ...pages,
  pages: pages.pages.map((page) => ({
    ...page,
    items: page.items.map((one) => (one.id === fresh.id ? fresh : one)),
  })),
});

export const hasNewer = (pages: MissionPages | undefined, ids: ReadonlySet<number>): boolean => {
  const newest = pages?.pages[0]?.items[0]?.id ?? 0;
  return [...ids].some((id) => id > newest);
};

async function renew(queries: QueryClient, queryKey: ListKey, ids: number[]): Promise<void> {
  const fresh = await Promise.all(
    ids.map((id) => queries.fetchQuery({ ...missionQuery(id), staleTime: 0 })),
  );
  queries.setQueryData<MissionPages>(
    queryKey,
    (pages) => pages && fresh.reduce(withMission, pages),
  );
}

export interface LiveList {
  visible: (ids: number[]) => void;
  pointer: (over: boolean) => void;
  newer: boolean;
  showNewer: () => void;
}

export function useLiveList(queryKey: ListKey): LiveList {
  const queries = useQueryClient();
  const inSight = useRef<number[]>([]);
  const pointerOver = useRef(false);
  const [newer, setNewer] = useState(false);
  const refetch = useCallback(() => {
    setNewer(false);
    void queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
  }, [queries, queryKey]);
  const onMissionEvents = useCallback(
    (ids: Set<number>) => {
      const list = queries.getQueryData<MissionPages>(queryKey);
      const short = (list?.pages.length ?? 0) <= PAGES_AT_ONCE;
      if (short && (!pointerOver.current || !inSight.current.length)) return refetch();
      if (hasNewer(list, ids)) setNewer(true);
      void renew(
        queries,
        queryKey,
        inSight.current.filter((id) => ids.has(id)).slice(0, ROWS_AT_ONCE),
      ).catch(() => undefined);
    },
    [queries, queryKey, refetch],
  );
  useMissionEvents(onMissionEvents);
  return {
    visible: useCallback((ids: number[]) => {
      inSight.current = ids;
    }, []),
    pointer: useCallback((over: boolean) => {
      pointerOver.current = over;
    }, []),
    newer,
    showNewer: useCallback(() => {
      setNewer(false);
      void queries.resetQueries({ queryKey });
      void queries.invalidateQueries({ queryKey: missionKeys.counts });
    }, [queries, queryKey]),
  };
}
