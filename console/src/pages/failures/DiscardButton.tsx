import { Button, type ButtonProps, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import type { Schemas } from "../../api/client";
import { discardFailures } from "../../api/engine";
import { useAction } from "../../components/ActionButton";
import { ErrorAlert } from "../../components/States";
import { useT } from "../../i18n";
import { AFFECTED_QUERIES } from "./group";

type Selection = Pick<Schemas["DiscardSelection"], "ids" | "filter">;

interface DiscardProps extends ButtonProps {
  selection: Selection;
  count: number;
  label?: string;
}

export function DiscardButton({ selection, count, label, ...look }: DiscardProps) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button
        {...look}
        color="red"
        variant="outline"
        aria-label={label}
        onClick={() => setOpen(true)}
      >
        {t("failures.discard")}
      </Button>
      <Modal
        opened={open}
        onClose={() => setOpen(false)}
        title={t("failures.discard")}
        closeButtonProps={{ "aria-label": t("common.back") }}
      >
        <Reason selection={selection} count={count} close={() => setOpen(false)} />
      </Modal>
    </>
  );
}

function Reason({
  selection,
  count,
  close,
}: {
  selection: Selection;
  count: number;
  close: () => void;
}) {
  const t = useT();
  const [reason, setReason] = useState("");
  const run = useAction(
    () => discardFailures({ ...selection, reason, dry_run: false }),
    AFFECTED_QUERIES,
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate(undefined, { onSuccess: close });
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text>{t("failures.discardQuestion", { count })}</Text>
        <TextInput
          label={t("failures.reason")}
          required
          minLength={3}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          data-autofocus
        />
        {run.error && <ErrorAlert error={run.error} />}
        <Group justify="flex-end">
          <Button
            type="submit"
            color="red"
            disabled={reason.trim().length < 3}
            loading={run.isPending}
          >
            {t("failures.discard")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
