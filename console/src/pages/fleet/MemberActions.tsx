import { Button, Group, Text } from "@mantine/core";
import { type Kind, fleetKeys, switchMember, testMember } from "../../api/fleet";
import { statsKey } from "../../api/operations";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { asProblem } from "../../api/problem";
import { useAct } from "../../parts/act";

interface Member {
  id: string;
  name: string;
  active: boolean;
}

export function MemberActions({ kind, member }: { kind: Kind; member: Member }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useMay("operator");
  const stale = [fleetKeys.all, statsKey];
  const test = useAct(() => testMember(kind, member.id), stale);
  const toggle = useAct(() => switchMember(kind, member.id, !member.active), stale);
  if (!mayAct) return null;
  const error = test.error ?? toggle.error;
  return (
    <Group gap="xs" justify="flex-end" wrap="nowrap">
      {test.data && (
        <Text size="xs" className={test.data.ok ? "good" : "bad"} role="status">
          {test.data.ok ? "✓" : "✗"} {test.data.message} ({format.number(test.data.milliseconds)} ms)
        </Text>
      )}
      {error && (
        <Text size="xs" className="bad" role="alert">
          {asProblem(error).message}
        </Text>
      )}
      <Button size="compact-xs" variant="default" loading={test.isPending} aria-label={`${t("fleet.test")} ${member.name}`} onClick={() => test.mutate(undefined)}>
        {t("fleet.test")}
      </Button>
      <Button
        size="compact-xs"
        variant="default"
        loading={toggle.isPending}
        aria-label={`${t(member.active ? "fleet.deactivate" : "fleet.activate")} ${member.name}`}
        onClick={() => toggle.mutate(undefined)}
      >
        {t(member.active ? "fleet.deactivate" : "fleet.activate")}
      </Button>
    </Group>
  );
}
