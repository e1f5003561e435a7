// Keeps a long list fresh: a short one is fetched again, of a long one only the rows in sight that changed.
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef } from "react";
import { type Mission, type missionList, missionOne } from "../../api/missions";
import { useMissionsHeard } from "../../live/LiveProvider";
import type { Schemas } from "../../api/client";

type Page = Schemas["CountedPage_Mission_"];
export type MissionPages = InfiniteData<Page, string | null>;

const PAGES_AT_ONCE = 2;
const ROWS_AT_ONCE = 30;

export const withMission = (pages: MissionPages, fresh: Mission): MissionPages => ({
  ...pages,
  pages: pages.pages.map((page) => ({ ...page, items: page.items.map((one) => (one.id === fresh.id ? fresh : one)) })),
});

async function renew(queries: QueryClient, queryKey: ReturnType<typeof missionList>["queryKey"], ids: number[]): Promise<void> {
  const fresh = await Promise.all(ids.map((id) => queries.fetchQuery({ ...missionOne(id), staleTime: 0 })));
  queries.setQueryData<MissionPages>(queryKey, (pages) => pages && fresh.reduce(withMission, pages));
}

export function useLiveList(queryKey: ReturnType<typeof missionList>["queryKey"]): (ids: number[]) => void {
  const queries = useQueryClient();
  const inSight = useRef<number[]>([]);
  const hear = useCallback(
    (ids: Set<number>) => {
      const pages = queries.getQueryData<MissionPages>(queryKey)?.pages.length ?? 0;
      if (pages <= PAGES_AT_ONCE) void queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
      else void renew(queries, queryKey, inSight.current.filter((id) => ids.has(id)).slice(0, ROWS_AT_ONCE)).catch(() => undefined);
    },
    [queries, queryKey],
  );
  useMissionsHeard(hear);
  return useCallback((ids: number[]) => {
    inSight.current = ids;
  }, []);
}
