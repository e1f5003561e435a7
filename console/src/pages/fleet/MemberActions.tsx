import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import { fleetKeys, type Kind, removeMember, switchMember, testMember } from "../../api/fleet";
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

export function MemberActions({ kind, member }: { kind: Kind; member: Member }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useMay("operator");
  const mayEdit = useMay("admin");
  const [editing, setEditing] = useState(false);
  const stale = [fleetKeys.all, statsKey];
  const test = useAct(() => testMember(kind, member.id), stale);
  const toggle = useAct(() => switchMember(kind, member.id, !member.active), stale);
  if (!mayAct) return null;
  const error = test.error ?? toggle.error;
  // Whoever is at work is not torn away from it: it finishes, and gets no more.
  const busy =
    member.active &&
    member.status !== undefined &&
    !["idle", "free", "ready", "error"].includes(member.status);
  const off = busy ? "fleet.drain" : "fleet.deactivate";
  return (
    <Group gap={6} justify="flex-end" wrap="nowrap">
      {test.data && (
        <Text size="xs" className={test.data.ok ? "good" : "bad"} role="status">
          {test.data.ok ? "✓" : "✗"} {test.data.message} ({format.number(test.data.milliseconds)}{" "}
          ms)
        </Text>
      )}
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
