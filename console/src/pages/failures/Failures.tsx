import { Button, Group, NumberInput, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type FailureGroup, failureGroupsQuery, retryFailures } from "../../api/engine";
import { useHasRole } from "../../app/session";
import { ActionButton } from "../../components/ActionButton";
import { EmptyState, PageHeader, QueryView } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Decisions } from "./Decisions";
import { DiscardButton } from "./DiscardButton";
import { FailedTasks } from "./FailedTasks";
import { AFFECTED_QUERIES, groupFilter } from "./group";

const DEFAULT_COUNT = 10;

export default function Failures() {
  const t = useT();
  const groups = useQuery(failureGroupsQuery);
  return (
    <>
      <PageHeader title={t("nav.failures")} />
      <Decisions />
      <QueryView query={groups}>
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
            <EmptyState>{t("failures.none")}</EmptyState>
          )
        }
      </QueryView>
    </>
  );
}

function GroupCard({ group }: { group: FailureGroup }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useHasRole("operator");
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
          {mayAct && <GroupActions group={group} />}
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
      {open && <FailedTasks group={group} />}
    </Paper>
  );
}

function GroupActions({ group }: { group: FailureGroup }) {
  const t = useT();
  const [wanted, setFirst] = useState(DEFAULT_COUNT);
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
          <ActionButton
            size="xs"
            variant="default"
            invalidates={AFFECTED_QUERIES}
            action={() =>
              retryFailures({ filter: groupFilter(group), limit: first, dry_run: false })
            }
          >
            {t("failures.retryFirst", { count: first })}
          </ActionButton>
        </>
      )}
      <ActionButton
        size="xs"
        invalidates={AFFECTED_QUERIES}
        action={() => retryFailures({ filter: groupFilter(group), dry_run: false })}
      >
        {t("failures.retryAll")}
      </ActionButton>
      <DiscardButton size="xs" selection={{ filter: groupFilter(group) }} count={group.tasks} />
    </>
  );
}
