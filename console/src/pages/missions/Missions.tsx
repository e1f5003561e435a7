import { Button, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { type MissionFilter, missionList } from "../../api/missions";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Failed, Loading, PageHead } from "../../parts/States";
import { BulkBar } from "./BulkBar";
import { CreateDialog } from "./CreateDialog";
import { FilterBar } from "./FilterBar";
import { changed, filterOf, isEmpty } from "./filter";
import { useLiveList } from "./liveList";
import { MissionTable } from "./MissionTable";
import { allLoaded, isSelected, NOTHING, type Selected, toggled } from "./selection";

export default function Missions() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const mayAct = useMay("operator");
  // The address can ask for the dialog: from the palette, from the first steps.
  const creating = mayAct && search.has("new");
  const setCreating = (open: boolean) =>
    setSearch((now) => changed(now, "new", open ? ["1"] : []), { replace: true });
  const address = changed(search, "new", []).toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(address)), [address]);
  return (
    <>
      <PageHead title={t("nav.missions")}>
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
      </PageHead>
      <FilterBar />
      {/* Another filter, another list: nothing selected stays behind. */}
      <List key={address} filter={filter} create={mayAct ? () => setCreating(true) : null} />
      <CreateDialog opened={creating} close={() => setCreating(false)} />
    </>
  );
}

function List({ filter, create }: { filter: MissionFilter; create: (() => void) | null }) {
  const t = useT();
  const format = useFormat();
  const options = useMemo(() => missionList(filter), [filter]);
  const list = useInfiniteQuery(options);
  const { visible, pointer, newer, showNewer } = useLiveList(options.queryKey);
  const [selected, setSelected] = useState<Selected>(NOTHING);
  const missions = useMemo(() => list.data?.pages.flatMap((page) => page.items) ?? [], [list.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const more = useCallback(
    () => void (isFetchingNextPage || fetchNextPage()),
    [isFetchingNextPage, fetchNextPage],
  );
  const head = list.data?.pages[0];
  const failed = list.error && <Failed error={list.error} retry={() => void list.refetch()} />;
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
      {/* A selection outlives its rows: what is done to them may take them out of this list. */}
      {missions.length ? (
        <MissionTable
          missions={missions}
          selected={selected}
          toggle={(id) => setSelected(toggled(selected, id, missions))}
          toggleAll={() => setSelected(every ? NOTHING : allLoaded(missions))}
          more={hasNextPage ? more : null}
          visible={visible}
          pointer={pointer}
        />
      ) : (
        <Nothing filtered={!isEmpty(filter)} create={create} />
      )}
      <Text size="sm" c="dimmed" mt="xs" role="status">
        {t("missions.total", { total, loaded: format.number(missions.length) })}
      </Text>
    </>
  );
}

function Nothing({ filtered, create }: { filtered: boolean; create: (() => void) | null }) {
  const t = useT();
  if (filtered) return <Empty>{t("missions.noneMatch")}</Empty>;
  return (
    <Empty action={create && <Button onClick={create}>{t("missions.create")}</Button>}>
      {t("missions.none")}
    </Empty>
  );
}
