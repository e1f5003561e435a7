// The failed tasks of a group, page by page, with their attempts and actions.
import { Button, Group, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import {
  type Failure,
  type FailureGroup,
  failedTaskListQuery,
  failureQuery,
  retryFailures,
} from "../../api/engine";
import { useHasRole } from "../../app/session";
import { ActionButton } from "../../components/ActionButton";
import { ErrorAlert, Loading, QueryView } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Attempts } from "./Attempts";
import { DiscardButton } from "./DiscardButton";
import { AFFECTED_QUERIES, groupFilter } from "./group";

export function FailedTasks({ group }: { group: FailureGroup }) {
  const t = useT();
  const list = useInfiniteQuery(useMemo(() => failedTaskListQuery(groupFilter(group)), [group]));
  const members = list.data?.pages.flatMap((page) => page.items);
  if (!members)
    return list.error ? (
      <ErrorAlert error={list.error} retry={() => void list.refetch()} />
    ) : (
      <Loading />
    );
  return (
    <Stack gap={0} mt="md">
      {list.error && <ErrorAlert error={list.error} retry={() => void list.refetch()} />}
      {members.map((member) => (
        <FailedTask key={member.task_id} member={member} />
      ))}
      {list.hasNextPage && (
        <Button
          size="xs"
          variant="default"
          mt="sm"
          loading={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
        >
          {t("common.more")}
        </Button>
      )}
    </Stack>
  );
}

function FailedTask({ member }: { member: Failure }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useHasRole("operator");
  const [open, setOpen] = useState(false);
  const name = member.key ?? `#${member.task_id}`;
  return (
    <div className="member">
      <Group justify="space-between" gap="xs" mb={4}>
        <Text size="sm" component="div">
          {member.pipeline === "missions" ? (
            <Link href={`/missions/${member.task_id}`}>
              {t("mission.title", { id: member.task_id })}
            </Link>
          ) : (
            <span className="code">{name}</span>
          )}{" "}
          <span className="quiet">
            {[
              t("failures.tries", { count: member.tries }),
              member.failed_at && format.ago(member.failed_at),
              member.snapshots > 0 && t("failures.snapshots", { count: member.snapshots }),
            ]
              .filter(Boolean)
              .join(" · ")}
          </span>
        </Text>
        <Group gap="xs">
          <Button
            size="compact-xs"
            variant="default"
            aria-expanded={open}
            aria-label={`${t("failures.show")} ${name}`}
            onClick={() => setOpen(!open)}
          >
            {t("failures.show")}
          </Button>
          {mayAct && (
            <>
              <ActionButton
                size="compact-xs"
                variant="default"
                invalidates={AFFECTED_QUERIES}
                action={() => retryFailures({ ids: [member.task_id], dry_run: false })}
                aria-label={`${t("action.retry")} ${name}`}
              >
                {t("action.retry")}
              </ActionButton>
              <DiscardButton
                size="compact-xs"
                selection={{ ids: [member.task_id] }}
                count={1}
                label={`${t("failures.discard")} ${name}`}
              />
            </>
          )}
        </Group>
      </Group>
      {open && <Detail taskId={member.task_id} />}
    </div>
  );
}

function Detail({ taskId }: { taskId: number }) {
  return (
    <QueryView query={useQuery(failureQuery(taskId))}>
      {({ attempts }) => <Attempts attempts={attempts} />}
    </QueryView>
  );
}
