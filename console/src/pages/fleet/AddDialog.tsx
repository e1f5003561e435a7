import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { type Kind, addProxy, addWorker, addWriter, fleetKeys } from "../../api/fleet";
import { statsKey } from "../../api/operations";
import { type MessageId, useT } from "../../i18n";
import { Failed } from "../../parts/States";
import { useAct } from "../../parts/act";

type Field = "name" | "url" | "api_key" | "storage_domain" | "host" | "port" | "username" | "password";
type Values = Partial<Record<Field, string>>;

const FIELDS: Record<Kind, Field[]> = {
  workers: ["name", "url", "api_key", "storage_domain"],
  proxies: ["name", "host", "port", "username", "password"],
  writers: ["name", "url", "api_key"],
};
const OPTIONAL = new Set<Field>(["port", "username", "password"]);
const TYPES: Partial<Record<Field, string>> = { url: "url", api_key: "password", password: "password", port: "number" };
const LABELS: Record<Field, MessageId> = {
  name: "field.name", url: "field.url", api_key: "field.api_key", storage_domain: "field.storage_domain",
  host: "field.host", port: "field.port", username: "field.username", password: "field.password",
}; // prettier-ignore

function add(kind: Kind, values: Values): Promise<unknown> {
  const { name = "", url = "", api_key = "", storage_domain = "", host = "" } = values;
  if (kind === "workers") return addWorker({ name, url, api_key, storage_domain });
  if (kind === "writers") return addWriter({ name, url, api_key });
  const port = values.port ? Number(values.port) : undefined;
  return addProxy({ name, host, port, username: values.username || undefined, password: values.password || undefined });
}

export function AddDialog({ kind, opened, close }: { kind: Kind; opened: boolean; close: () => void }) {
  const t = useT();
  return (
    <Modal opened={opened} onClose={close} title={t(`fleet.add.${kind}`)} closeButtonProps={{ "aria-label": t("act.back") }}>
      <AddForm kind={kind} close={close} />
    </Modal>
  );
}

function AddForm({ kind, close }: { kind: Kind; close: () => void }) {
  const t = useT();
  const [values, setValues] = useState<Values>({});
  const run = useAct((given: Values) => add(kind, given), [fleetKeys.all, statsKey]);
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
            type={TYPES[field] ?? "text"}
            required={!OPTIONAL.has(field)}
            autoComplete="new-password"
            data-autofocus={index === 0 || undefined}
            value={values[field] ?? ""}
            onChange={(event) => setValues({ ...values, [field]: event.currentTarget.value })}
          />
        ))}
        {run.error && <Failed error={run.error} />}
        <Group justify="flex-end">
          <Button type="submit" loading={run.isPending}>
            {t("fleet.add")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
