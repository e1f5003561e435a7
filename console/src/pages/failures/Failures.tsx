import { Button, Group, NumberInput, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type FailureGroup, failureGroups, retryFailures } from "../../api/engine";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton } from "../../parts/act";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { DiscardButton } from "./Discard";
import { filterOf, STALE } from "./group";
import { Members } from "./Members";

const FIRST = 10;

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
                <GroupCard
                  key={`${group.pipeline}/${group.code}/${group.fingerprint}`}
                  group={group}
                />
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
      <Group justify="space-between" mb={6}>
        <Title order={2} size="h5">
          <span className="code">{group.code ?? "?"}</span> ·{" "}
          {t("failures.count", { count: group.tasks })}
        </Title>
        <Group gap="xs">
          <Button size="xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
            {t(open ? "failures.hide" : "failures.showAll", { count: group.tasks })}
          </Button>
          {mayAct && <Deeds group={group} />}
        </Group>
      </Group>
      <Text size="sm" className="breaks">
        {group.message}
      </Text>
      <Text size="xs" c="dimmed">
        {[
          group.pipeline,
          group.class,
          group.step,
          group.last_at && t("failures.last", { ago: format.ago(group.last_at) }),
        ]
          .filter(Boolean)
          .join(" · ")}
        {group.pipeline === "missions" && (
          <>
            {" · "}
            <Link href={`/missions?status=failed&code=${encodeURIComponent(group.code ?? "")}`}>
              {t("nav.missions")}
            </Link>
          </>
        )}
      </Text>
      {open && <Members group={group} />}
    </Paper>
  );
}

function Deeds({ group }: { group: FailureGroup }) {
  const t = useT();
  const [wanted, setFirst] = useState(FIRST);
  const first = Math.min(wanted, group.tasks);
  return (
    <>
      {group.tasks > 1 && (
        <>
          <NumberInput
            size="xs"
            w={64}
            min={1}
            max={group.tasks}
            hideControls
            aria-label={t("failures.firstCount")}
            value={first}
            onChange={(value) => setFirst(Math.max(1, Math.min(group.tasks, Number(value) || 1)))}
          />
          <ActButton
            size="xs"
            variant="default"
            stale={STALE}
            act={() => retryFailures({ filter: filterOf(group), limit: first, dry_run: false })}
          >
            {t("failures.retryFirst", { count: first })}
          </ActButton>
        </>
      )}
      <ActButton
        size="xs"
        stale={STALE}
        act={() => retryFailures({ filter: filterOf(group), dry_run: false })}
      >
        {t("failures.retryAll")}
      </ActButton>
      <DiscardButton size="xs" selection={{ filter: filterOf(group) }} count={group.tasks} />
    </>
  );
}
