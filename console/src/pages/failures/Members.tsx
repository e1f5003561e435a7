// All dead letters of a group, a page at a time, each with what became of it.
import { Button, Group, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import {
  type Failure,
  type FailureGroup,
  failureMembers,
  failureOne,
  retryFailures,
} from "../../api/engine";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton } from "../../parts/act";
import { Failed, Loaded, Loading } from "../../parts/States";
import { Attempts } from "./Attempts";
import { DiscardButton } from "./Discard";
import { filterOf, STALE } from "./group";

export function Members({ group }: { group: FailureGroup }) {
  const t = useT();
  const list = useInfiniteQuery(useMemo(() => failureMembers(filterOf(group)), [group]));
  const members = list.data?.pages.flatMap((page) => page.items);
  if (!members)
    return list.error ? (
      <Failed error={list.error} retry={() => void list.refetch()} />
    ) : (
      <Loading />
    );
  return (
    <Stack gap={0} mt="md">
      {list.error && <Failed error={list.error} retry={() => void list.refetch()} />}
      {members.map((member) => (
        <Member key={member.task_id} member={member} />
      ))}
      {list.hasNextPage && (
        <Button
          size="xs"
          variant="default"
          mt="sm"
          loading={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
        >
          {t("act.more")}
        </Button>
      )}
    </Stack>
  );
}

function Member({ member }: { member: Failure }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useMay("operator");
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
              <ActButton
                size="compact-xs"
                variant="default"
                stale={STALE}
                act={() => retryFailures({ ids: [member.task_id], dry_run: false })}
                aria-label={`${t("deed.retry")} ${name}`}
              >
                {t("deed.retry")}
              </ActButton>
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
    <Loaded query={useQuery(failureOne(taskId))}>
      {({ attempts }) => <Attempts attempts={attempts} />}
    </Loaded>
  );
}
