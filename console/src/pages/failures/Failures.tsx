import { Button, Group, Modal, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type FailureGroup, discardFailures, failureGroups, failuresKey, retryFailures } from "../../api/engine";
import { missionKeys } from "../../api/missions";
import { statsKey } from "../../api/operations";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Failed, Loaded, PageHead } from "../../parts/States";
import { ActButton, useAct } from "../../parts/act";
import { FailureDetail } from "./FailureDetail";

const STALE = [failuresKey, missionKeys.all, statsKey];
const FIRST = 10;

const filterOf = ({ pipeline, code, fingerprint }: FailureGroup) => ({ pipeline, code, fingerprint });

export default function Failures() {
  const t = useT();
  const groups = useQuery(failureGroups);
  return (
    <>
      <PageHead title={t("nav.failures")} />
      <Loaded query={groups}>
        {(found) =>
          found.length ? (
            <Stack>
              {found.map((group) => (
                <GroupCard key={`${group.pipeline}/${group.code}/${group.fingerprint}`} group={group} />
              ))}
            </Stack>
          ) : (
            <Empty>{t("failures.none")}</Empty>
          )
        }
      </Loaded>
    </>
  );
}

function GroupCard({ group }: { group: FailureGroup }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useMay("operator");
  const [open, setOpen] = useState(false);
  return (
    <Paper withBorder p="md" component="article" aria-label={group.code ?? group.pipeline}>
      <Group justify="space-between">
        <Title order={2} size="h5">
          <span className="code">{group.code ?? "?"}</span> · {t("failures.count", { count: group.tasks })}
        </Title>
        <Group gap="xs">
          <Button size="xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
            {t("failures.newest")}
          </Button>
          {mayAct && <Deeds group={group} />}
        </Group>
      </Group>
      <Text size="sm">{group.message}</Text>
      <Text size="xs" c="dimmed">
        {[group.pipeline, group.class, group.step, group.last_at && t("failures.last", { ago: format.ago(group.last_at) })].filter(Boolean).join(" · ")}
        {group.pipeline === "missions" && (
          <>
            {" · "}
            <Link href={`/missions?status=failed&code=${encodeURIComponent(group.code ?? "")}`}>{t("nav.missions")}</Link>
          </>
        )}
      </Text>
      {open && <FailureDetail taskId={group.newest_task_id} />}
    </Paper>
  );
}

function Deeds({ group }: { group: FailureGroup }) {
  const t = useT();
  const [discarding, setDiscarding] = useState(false);
  return (
    <>
      {group.tasks > FIRST && (
        <ActButton size="xs" variant="default" stale={STALE} act={() => retryFailures({ filter: filterOf(group), limit: FIRST, dry_run: false })}>
          {t("failures.retryFirst", { count: FIRST })}
        </ActButton>
      )}
      <ActButton size="xs" stale={STALE} act={() => retryFailures({ filter: filterOf(group), dry_run: false })}>
        {t("failures.retryAll")}
      </ActButton>
      <Button size="xs" color="red" variant="outline" onClick={() => setDiscarding(true)}>
        {t("failures.discard")}
      </Button>
      <Modal opened={discarding} onClose={() => setDiscarding(false)} title={t("failures.discard")} closeButtonProps={{ "aria-label": t("act.back") }}>
        <Discard group={group} close={() => setDiscarding(false)} />
      </Modal>
    </>
  );
}

function Discard({ group, close }: { group: FailureGroup; close: () => void }) {
  const t = useT();
  const [reason, setReason] = useState("");
  const run = useAct(() => discardFailures({ filter: filterOf(group), reason, dry_run: false }), STALE);
  return (
    <Stack>
      <Text>{t("failures.discardQuestion", { count: group.tasks })}</Text>
      <TextInput label={t("failures.reason")} required minLength={3} value={reason} onChange={(event) => setReason(event.currentTarget.value)} data-autofocus />
      {run.error && <Failed error={run.error} />}
      <Group justify="flex-end">
        <Button color="red" disabled={reason.trim().length < 3} loading={run.isPending} onClick={() => run.mutate(undefined, { onSuccess: close })}>
          {t("failures.discard")}
        </Button>
      </Group>
    </Stack>
  );
}
