import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import {
  type FleetKind,
  fleetKeys,
  removeMember,
  setMemberActive,
  type TestResult,
  testMember,
} from "../../api/fleet";
import { statsKey } from "../../api/overview";
import { toProblem } from "../../api/problem";
import { useHasRole } from "../../app/session";
import { ConfirmButton, useAction } from "../../components/ActionButton";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { type Known, MemberDialog } from "./MemberDialog";

interface Member extends Known {
  active: boolean;
  status?: string;
}

// A busy member finishes its mission before it is deactivated.
const isBusy = ({ active, status }: Member): boolean =>
  active && status !== undefined && !["idle", "free", "ready", "error"].includes(status);

export function MemberActions({ kind, member }: { kind: FleetKind; member: Member }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  const mayEdit = useHasRole("admin");
  const [editing, setEditing] = useState(false);
  const affected = [fleetKeys.all, statsKey];
  const test = useAction(() => testMember(kind, member.id), affected);
  const toggle = useAction(() => setMemberActive(kind, member.id, !member.active), affected);
  if (!mayAct) return null;
  const error = test.error ?? toggle.error;
  const busy = isBusy(member);
  const off = busy ? "fleet.drain" : "fleet.deactivate";
  return (
    <Group gap={6} justify="flex-end" wrap="nowrap">
      {test.data && <TestResultText result={test.data} />}
      {error && (
        <Text size="xs" className="bad" role="alert">
          {toProblem(error).message}
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
        title={busy ? t("fleet.drainHelp") : undefined}
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
          <ConfirmButton
            size="compact-xs"
            variant="outline"
            color="red"
            label={`${t("fleet.remove")} ${member.name}`}
            action={() => removeMember(kind, member.id)}
            invalidates={affected}
            question={t("fleet.removeQuestion", { name: member.name })}
          >
            {t("fleet.remove")}
          </ConfirmButton>
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

function TestResultText({ result: { ok, message, milliseconds } }: { result: TestResult }) {
  const format = useFormat();
  return (
    <Text size="xs" className={ok ? "good" : "bad"} role="status">
      {ok ? "✓" : "✗"} {message} ({format.milliseconds(milliseconds)})
    </Text>
  );
}
