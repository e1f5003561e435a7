import { Alert, Button, Group, Text } from "@mantine/core";
import { useT } from "../i18n";
import { useFormat } from "../i18n/format";
import { useLive } from "./LiveProvider";

export function LiveBadge() {
  const t = useT();
  const { state } = useLive();
  return (
    <span className="live" data-state={state} role="status">
      <span className="live-dot" aria-hidden="true" />
      {t(`live.${state}`)}
    </span>
  );
}

export function StaleWarning() {
  const t = useT();
  const format = useFormat();
  const { state, lastFrameAt, retry } = useLive();
  if (state !== "stale") return null;
  return (
    <Alert color="orange" role="alert" title={t("live.staleTitle")} mb="md">
      <Group justify="space-between">
        <Text size="sm">{lastFrameAt ? t("live.staleSince", { time: format.clock(lastFrameAt) }) : t("live.neverHeard")}</Text>
        <Button size="xs" color="orange" variant="outline" onClick={retry}>
          {t("live.retry")}
        </Button>
      </Group>
    </Alert>
  );
}
