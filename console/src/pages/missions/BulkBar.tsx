import { Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import {
  actOnMissions,
  type BulkAction,
  bulkActionQuery,
  type MissionAction,
  type MissionFilter,
  missionKeys,
} from "../../api/missions";
import { statsKey } from "../../api/overview";
import { ErrorAlert, Loading } from "../../components/States";
import { useStatusName } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { NO_SELECTION, type Selected, selectionRequest } from "./selection";

const ACTIONS: MissionAction[] = ["queue", "cancel", "retry"];

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
  const [action, setAction] = useState<MissionAction | null>(null);
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
          {t("bulk.selectAll", { total })}
        </Button>
      )}
      {ACTIONS.map((one) => (
        <Button
          key={one}
          size="xs"
          color={one === "cancel" ? "red" : "blue"}
          variant={one === "queue" ? "filled" : "outline"}
          onClick={() => setAction(one)}
        >
          {t(`action.${one}`)}
        </Button>
      ))}
      <Button size="xs" variant="subtle" color="gray" onClick={() => select(NO_SELECTION)}>
        {t("bulk.clear")}
      </Button>
      <Modal
        opened={action !== null}
        onClose={() => setAction(null)}
        title={action && t(`action.${action}`)}
        closeButtonProps={{ "aria-label": t("common.back") }}
      >
        {action && (
          <BulkDialog
            action={action}
            selected={selected}
            filter={filter}
            close={(done) => {
              setAction(null);
              if (done) select(NO_SELECTION);
            }}
          />
        )}
      </Modal>
    </Group>
  );
}

interface BulkDialogProps {
  action: MissionAction;
  selected: Selected;
  filter: MissionFilter;
  close: (done: boolean) => void;
}

// Shows the preview, then the progress, then the result.
function BulkDialog({ action, selected, filter, close }: BulkDialogProps) {
  const t = useT();
  const nameOf = useStatusName();
  const format = useFormat();
  const selection = selectionRequest(selected, filter);
  const preview = useQuery({
    queryKey: ["preview", action, selection],
    queryFn: () => actOnMissions(action, { ...selection, dry_run: true }),
    gcTime: 0,
    staleTime: 0,
  });
  const run = useMutation({
    mutationFn: () => actOnMissions(action, { ...selection, dry_run: false }),
  });
  if (run.data && "id" in run.data)
    return <BulkResult begun={run.data} close={() => close(true)} />;
  if (preview.error)
    return <ErrorAlert error={preview.error} retry={() => void preview.refetch()} />;
  if (!preview.data || !("by_status" in preview.data)) return <Loading />;
  const { would_change, total, by_status } = preview.data;
  return (
    <Stack>
      <Text>
        {t(`action.${action}.preview`, { count: would_change, total: format.number(total) })}
      </Text>
      <Text size="sm" c="dimmed">
        {Object.entries(by_status)
          .map(([status, count]) => `${nameOf(status)}: ${format.number(count)}`)
          .join(" · ")}
      </Text>
      {run.error && <ErrorAlert error={run.error} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={() => close(false)}>
          {t("common.back")}
        </Button>
        <Button
          color={action === "cancel" ? "red" : "blue"}
          disabled={would_change === 0}
          loading={run.isPending}
          onClick={() => run.mutate()}
        >
          {t(`action.${action}`)}
        </Button>
      </Group>
    </Stack>
  );
}

function BulkResult({ begun, close }: { begun: BulkAction; close: () => void }) {
  const t = useT();
  const format = useFormat();
  const queries = useQueryClient();
  const { data: action = begun } = useQuery({ ...bulkActionQuery(begun.id), initialData: begun });
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
        <Button onClick={close}>{t("common.close")}</Button>
      </Group>
    </Stack>
  );
}
