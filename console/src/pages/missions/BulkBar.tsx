import { Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import {
  type Action,
  actionProgress,
  actOnMissions,
  type Deed,
  type MissionFilter,
  missionKeys,
} from "../../api/missions";
import { statsKey } from "../../api/operations";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Failed, Loading } from "../../parts/States";
import { useStatusName } from "../../parts/Status";
import { asked, NOTHING, type Selected } from "./selection";

const DEEDS: Deed[] = ["queue", "cancel", "retry"];

interface BulkBarProps {
  selected: Selected;
  select: (selected: Selected) => void;
  filter: MissionFilter;
  loaded: number;
  total: string;
}

export function BulkBar({ selected, select, filter, loaded, total }: BulkBarProps) {
  const t = useT();
  const format = useFormat();
  const [deed, setDeed] = useState<Deed | null>(null);
  const count = selected.all ? null : selected.ids.size;
  if (count === 0) return null;
  return (
    <Group className="bulk" gap="xs" role="region" aria-label={t("bulk.label")}>
      <Text size="sm" fw={600} aria-live="polite">
        {count === null
          ? t("bulk.all", { total })
          : t("bulk.count", { count, shown: format.number(count) })}
      </Text>
      {count !== null && count >= loaded && (
        <Button size="xs" variant="subtle" onClick={() => select({ all: true })}>
          {t("bulk.takeAll", { total })}
        </Button>
      )}
      {DEEDS.map((one) => (
        <Button
          key={one}
          size="xs"
          color={one === "cancel" ? "red" : "blue"}
          variant={one === "queue" ? "filled" : "outline"}
          onClick={() => setDeed(one)}
        >
          {t(`deed.${one}`)}
        </Button>
      ))}
      <Button size="xs" variant="subtle" color="gray" onClick={() => select(NOTHING)}>
        {t("bulk.nothing")}
      </Button>
      <Modal
        opened={deed !== null}
        onClose={() => setDeed(null)}
        title={deed && t(`deed.${deed}`)}
        closeButtonProps={{ "aria-label": t("act.back") }}
      >
        {deed && (
          <BulkDialog
            deed={deed}
            selected={selected}
            filter={filter}
            close={(done) => {
              setDeed(null);
              if (done) select(NOTHING);
            }}
          />
        )}
      </Modal>
    </Group>
  );
}

interface BulkDialogProps {
  deed: Deed;
  selected: Selected;
  filter: MissionFilter;
  close: (done: boolean) => void;
}

// First what it would do, then how far it is, then what it did.
function BulkDialog({ deed, selected, filter, close }: BulkDialogProps) {
  const t = useT();
  const nameOf = useStatusName();
  const format = useFormat();
  const selection = asked(selected, filter);
  const preview = useQuery({
    queryKey: ["preview", deed, selection],
    queryFn: () => actOnMissions(deed, { ...selection, dry_run: true }),
    gcTime: 0,
    staleTime: 0,
  });
  const run = useMutation({
    mutationFn: () => actOnMissions(deed, { ...selection, dry_run: false }),
  });
  if (run.data && "id" in run.data)
    return <BulkResult begun={run.data} close={() => close(true)} />;
  if (preview.error) return <Failed error={preview.error} retry={() => void preview.refetch()} />;
  if (!preview.data || !("by_status" in preview.data)) return <Loading />;
  const { would_change, total, by_status } = preview.data;
  return (
    <Stack>
      <Text>{t(`deed.${deed}.preview`, { count: would_change, total: format.number(total) })}</Text>
      <Text size="sm" c="dimmed">
        {Object.entries(by_status)
          .map(([status, count]) => `${nameOf(status)}: ${format.number(count)}`)
          .join(" · ")}
      </Text>
      {run.error && <Failed error={run.error} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={() => close(false)}>
          {t("act.back")}
        </Button>
        <Button
          color={deed === "cancel" ? "red" : "blue"}
          disabled={would_change === 0}
          loading={run.isPending}
          onClick={() => run.mutate()}
        >
          {t(`deed.${deed}`)}
        </Button>
      </Group>
    </Stack>
  );
}

function BulkResult({ begun, close }: { begun: Action; close: () => void }) {
  const t = useT();
  const format = useFormat();
  const queries = useQueryClient();
  const { data: action = begun } = useQuery({ ...actionProgress(begun.id), initialData: begun });
  const { status } = action;
  useEffect(() => {
    if (status === "running") return;
    for (const queryKey of [missionKeys.all, statsKey])
      void queries.invalidateQueries({ queryKey });
  }, [status, queries]);
  return (
    <Stack role="status">
      <Progress
        value={action.total ? (100 * action.done) / action.total : 100}
        color={status === "failed" ? "red" : "blue"}
        aria-label={t("bulk.progress")}
      />
      <Text>
        {t(`bulk.${status}`, {
          done: format.number(action.done),
          total: format.number(action.total),
          changed: action.changed,
        })}
      </Text>
      {action.error && <Text c="red">{action.error}</Text>}
      <Group justify="flex-end">
        <Button onClick={close}>{t("act.close")}</Button>
      </Group>
    </Stack>
  );
}
