import { Button, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { type MissionFilter, missionListQuery } from "../../api/missions";
import { useHasRole } from "../../app/session";
import { EmptyState, ErrorAlert, Loading, PageHeader } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { BulkBar } from "./BulkBar";
import { CreateDialog } from "./CreateDialog";
import { FilterBar } from "./FilterBar";
import { filterOf, isEmpty, withParam } from "./filter";
import { MissionTable } from "./MissionTable";
import { isSelected, NO_SELECTION, type Selected, selectAll, toggleSelection } from "./selection";
import { useLiveList } from "./useLiveList";

export default function Missions() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const mayAct = useHasRole("operator");
  // ?new opens the dialog, for links from the palette and the first steps.
  const creating = mayAct && search.has("new");
  const setCreating = (open: boolean) =>
    setSearch((now) => withParam(now, "new", open ? ["1"] : []), { replace: true });
  const address = withParam(search, "new", []).toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(address)), [address]);
  return (
    <>
      <PageHeader title={t("nav.missions")}>
        {mayAct && (
          <>
            <Button
              variant="default"
              onClick={() => setSearch(new URLSearchParams({ status: "draft" }))}
            >
              {t("missions.select")}
            </Button>
            <Button onClick={() => setCreating(true)}>{t("missions.create")}</Button>
          </>
        )}
      </PageHeader>
      <FilterBar />
      {/* The key resets the selection when the filter changes. */}
      <MissionList key={address} filter={filter} create={mayAct ? () => setCreating(true) : null} />
      <CreateDialog opened={creating} close={() => setCreating(false)} />
    </>
  );
}

function MissionList({ filter, create }: { filter: MissionFilter; create: (() => void) | null }) {
  const t = useT();
  const format = useFormat();
  const options = useMemo(() => missionListQuery(filter), [filter]);
  const list = useInfiniteQuery(options);
  const { visible, pointer, newer, showNewer } = useLiveList(options.queryKey);
  const [selected, setSelected] = useState<Selected>(NO_SELECTION);
  const missions = useMemo(() => list.data?.pages.flatMap((page) => page.items) ?? [], [list.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const more = useCallback(
    () => void (isFetchingNextPage || fetchNextPage()),
    [isFetchingNextPage, fetchNextPage],
  );
  const head = list.data?.pages[0];
  const failed = list.error && <ErrorAlert error={list.error} retry={() => void list.refetch()} />;
  if (!head) return failed ?? <Loading />;
  const total = `${format.number(head.total ?? missions.length)}${head.total_is_capped ? "+" : ""}`;
  const every = missions.every(({ id }) => isSelected(selected, id));
  return (
    <>
      {failed}
      {create && (
        <BulkBar
          selected={selected}
          select={setSelected}
          filter={filter}
          loaded={missions.length}
          total={total}
        />
      )}
      {newer && (
        <Button size="xs" variant="light" mb="xs" onClick={showNewer}>
          {t("missions.newRows")}
        </Button>
      )}
      {/* The bar stays when its rows leave the list because of its own action. */}
      {missions.length ? (
        <MissionTable
          missions={missions}
          selected={selected}
          toggle={(id) => setSelected(toggleSelection(selected, id, missions))}
          toggleAll={() => setSelected(every ? NO_SELECTION : selectAll(missions))}
          more={hasNextPage ? more : null}
          visible={visible}
          pointer={pointer}
        />
      ) : (
        <NoMissions filtered={!isEmpty(filter)} create={create} />
      )}
      <Text size="sm" c="dimmed" mt="xs" role="status">
        {t("missions.total", { total, loaded: format.number(missions.length) })}
      </Text>
    </>
  );
}

function NoMissions({ filtered, create }: { filtered: boolean; create: (() => void) | null }) {
  const t = useT();
  if (filtered) return <EmptyState>{t("missions.noneMatch")}</EmptyState>;
  return (
    <EmptyState action={create && <Button onClick={create}>{t("missions.create")}</Button>}>
      {t("missions.none")}
    </EmptyState>
  );
}
