import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import {
  fleetKeys,
  type Kind,
  removeMember,
  switchMember,
  testMember,
  type Verdict,
} from "../../api/fleet";
import { statsKey } from "../../api/operations";
import { asProblem } from "../../api/problem";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Confirmed, useAct } from "../../parts/act";
import { type Known, MemberDialog } from "./MemberDialog";

interface Member extends Known {
  active: boolean;
  status?: string;
}

// A busy member finishes its mission before it is deactivated.
const isBusy = ({ active, status }: Member): boolean =>
  active && status !== undefined && !["idle", "free", "ready", "error"].includes(status);

export function MemberActions({ kind, member }: { kind: Kind; member: Member }) {
  const t = useT();
  const mayAct = useMay("operator");
  const mayEdit = useMay("admin");
  const [editing, setEditing] = useState(false);
  const stale = [fleetKeys.all, statsKey];
  const test = useAct(() => testMember(kind, member.id), stale);
  const toggle = useAct(() => switchMember(kind, member.id, !member.active), stale);
  if (!mayAct) return null;
  const error = test.error ?? toggle.error;
  const busy = isBusy(member);
  const off = busy ? "fleet.drain" : "fleet.deactivate";
  return (
    <Group gap={6} justify="flex-end" wrap="nowrap">
      {test.data && <TestResult result={test.data} />}
      {error && (
        <Text size="xs" className="bad" role="alert">
          {asProblem(error).message}
        </Text>
      )}
      <Button
        size="compact-xs"
        variant="default"
        loading={test.isPending}
        aria-label={`${t("fleet.test")} ${member.name}`}
        onClick={() => test.mutate(undefined)}
      >
        {t("fleet.test")}
      </Button>
      <Button
        size="compact-xs"
        variant="default"
        loading={toggle.isPending}
        title={busy ? t("fleet.drainHow") : undefined}
        aria-label={`${t(member.active ? off : "fleet.activate")} ${member.name}`}
        onClick={() => toggle.mutate(undefined)}
      >
        {t(member.active ? off : "fleet.activate")}
      </Button>
      {mayEdit && (
        <>
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`${t("fleet.edit")} ${member.name}`}
            onClick={() => setEditing(true)}
          >
            {t("fleet.edit")}
          </Button>
          <Confirmed
            size="compact-xs"
            variant="outline"
            color="red"
            label={`${t("fleet.remove")} ${member.name}`}
            act={() => removeMember(kind, member.id)}
            stale={stale}
            question={t("fleet.removeQuestion", { name: member.name })}
          >
            {t("fleet.remove")}
          </Confirmed>
          <MemberDialog
            kind={kind}
            member={member}
            opened={editing}
            close={() => setEditing(false)}
          />
        </>
      )}
    </Group>
  );
}

function TestResult({ result: { ok, message, milliseconds } }: { result: Verdict }) {
  const format = useFormat();
  return (
    <Text size="xs" className={ok ? "good" : "bad"} role="status">
      {ok ? "✓" : "✗"} {message} ({format.took(milliseconds)})
    </Text>
  );
}
