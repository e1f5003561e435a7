// Form that adds or edits a worker, proxy or writer. Secrets are write-only.
import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import {
  addProxy,
  addWorker,
  addWriter,
  type FleetKind,
  fleetKeys,
  type MemberChanges,
  updateMember,
} from "../../api/fleet";
import { statsKey } from "../../api/overview";
import { useAction } from "../../components/ActionButton";
import { ErrorAlert } from "../../components/States";
import { type MessageId, useT } from "../../i18n";

type Field =
  | "name"
  | "url"
  | "api_key"
  | "storage_domain"
  | "host"
  | "port"
  | "username"
  | "password";
type Values = Partial<Record<Field, string>>;
export type Known = { id: string; name: string } & {
  [field in Exclude<Field, "name">]?: string | number | null;
};

const FIELDS: Record<FleetKind, Field[]> = {
  workers: ["name", "url", "api_key", "storage_domain"],
  proxies: ["name", "host", "port", "username", "password"],
  writers: ["name", "url", "api_key"],
};
const OPTIONAL = new Set<Field>(["port", "username", "password"]);
const SECRET = new Set<Field>(["api_key", "password"]);
const TYPES: Partial<Record<Field, string>> = {
  url: "url",
  api_key: "password",
  password: "password",
  port: "number",
};
const LABELS: Record<Field, MessageId> = {
  name: "field.name",
  url: "field.url",
  api_key: "field.api_key",
  storage_domain: "field.storage_domain",
  host: "field.host",
  port: "field.port",
  username: "field.username",
  password: "field.password",
};

function add(kind: FleetKind, values: Values): Promise<unknown> {
  const { name = "", url = "", api_key = "", storage_domain = "", host = "" } = values;
  if (kind === "workers") return addWorker({ name, url, api_key, storage_domain });
  if (kind === "writers") return addWriter({ name, url, api_key });
  const port = values.port ? Number(values.port) : undefined;
  return addProxy({
    name,
    host,
    port,
    username: values.username || undefined,
    password: values.password || undefined,
  });
}

const shownOf = (field: Field, member: Known): string =>
  SECRET.has(field) ? "" : String(member[field] ?? "");

// The changed fields; an empty secret keeps its value.
export function changesOf(kind: FleetKind, member: Known, values: Values): MemberChanges {
  const changed = FIELDS[kind].filter(
    (field) => values[field] !== undefined && values[field] !== shownOf(field, member),
  );
  return Object.fromEntries(
    changed.map((field) => [field, field === "port" ? Number(values.port) : values[field]]),
  );
}

interface MemberDialogProps {
  kind: FleetKind;
  opened: boolean;
  close: () => void;
  member?: Known;
}

export function MemberDialog({ kind, opened, close, member }: MemberDialogProps) {
  const t = useT();
  const title = member ? t("fleet.editTitle", { name: member.name }) : t(`fleet.add.${kind}`);
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={title}
      closeButtonProps={{ "aria-label": t("common.back") }}
    >
      <MemberForm kind={kind} close={close} member={member} />
    </Modal>
  );
}

function MemberForm({
  kind,
  close,
  member,
}: {
  kind: FleetKind;
  close: () => void;
  member?: Known;
}) {
  const t = useT();
  const [values, setValues] = useState<Values>({});
  const save = (given: Values) =>
    member ? updateMember(kind, member.id, changesOf(kind, member, given)) : add(kind, given);
  const run = useAction(save, [fleetKeys.all, statsKey]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate(values, { onSuccess: close });
  };
  return (
    <form onSubmit={submit} autoComplete="off">
      <Stack>
        {FIELDS[kind].map((field, index) => (
          <TextInput
            key={field}
            label={t(LABELS[field])}
            description={member && SECRET.has(field) ? t("fleet.keepSecret") : undefined}
            type={TYPES[field] ?? "text"}
            required={!OPTIONAL.has(field) && !(member && SECRET.has(field))}
            autoComplete="new-password"
            data-autofocus={index === 0 || undefined}
            value={values[field] ?? (member ? shownOf(field, member) : "")}
            onChange={(event) => setValues({ ...values, [field]: event.currentTarget.value })}
          />
        ))}
        {run.error && <ErrorAlert error={run.error} />}
        <Group justify="flex-end">
          <Button type="submit" loading={run.isPending}>
            {t(member ? "fleet.save" : "fleet.add")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
