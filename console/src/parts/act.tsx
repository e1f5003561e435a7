// An action of the operator: one button, its result or its error right beside it, and fresh data behind it.
import { Button, type ButtonProps, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useT } from "../i18n";
import { Failed } from "./States";

export function useAct<I, O>(
  act: (input: I) => Promise<O>,
  stale: readonly (readonly unknown[])[],
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSettled: () => Promise.all(stale.map((queryKey) => queries.invalidateQueries({ queryKey }))),
  });
}

interface ConfirmedProps extends ButtonProps {
  children: ReactNode;
  question: ReactNode;
  label?: string;
  act: () => Promise<unknown>;
  stale: readonly (readonly unknown[])[];
}

// For what cannot be taken back.
export function Confirmed({ children, question, label, act, stale, ...look }: ConfirmedProps) {
  const t = useT();
  const [open, setOpen] = useState(false);
  const run = useAct(act, stale);
  const close = () => {
    setOpen(false);
    run.reset();
  };
  return (
    <>
      <Button {...look} aria-label={label} onClick={() => setOpen(true)}>
        {children}
      </Button>
      <Modal
        opened={open}
        onClose={close}
        title={children}
        closeButtonProps={{ "aria-label": t("act.back") }}
      >
        <Stack>
          <Text component="div">{question}</Text>
          {run.error && <Failed error={run.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("act.back")}
            </Button>
            <Button
              color={look.color}
              loading={run.isPending}
              onClick={() => run.mutate(undefined, { onSuccess: close })}
            >
              {children}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

interface ActButtonProps extends ButtonProps {
  children: ReactNode;
  act: () => Promise<unknown>;
  stale: readonly (readonly unknown[])[];
  "aria-label"?: string;
  title?: string;
}

export function ActButton({ children, act, stale, ...look }: ActButtonProps) {
  const run = useAct(act, stale);
  return (
    <>
      <Button {...look} loading={run.isPending} onClick={() => run.mutate(undefined)}>
        {children}
      </Button>
      {run.error && <Failed error={run.error} />}
    </>
  );
}
