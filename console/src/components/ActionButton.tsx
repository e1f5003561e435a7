// Buttons that call the API, show its error beside them and invalidate the queries it affects.
import { Button, type ButtonProps, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useT } from "../i18n";
import { ErrorAlert } from "./States";

type QueryKeys = readonly (readonly unknown[])[];

export function useAction<I, O>(action: (input: I) => Promise<O>, invalidates: QueryKeys) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: action,
    onSettled: () =>
      Promise.all(invalidates.map((queryKey) => queries.invalidateQueries({ queryKey }))),
  });
}

interface ConfirmButtonProps extends ButtonProps {
  children: ReactNode;
  question: ReactNode;
  label?: string;
  action: () => Promise<unknown>;
  invalidates: QueryKeys;
}

// For an action that cannot be undone: asks for confirmation in a dialog.
export function ConfirmButton({
  children,
  question,
  label,
  action,
  invalidates,
  ...buttonProps
}: ConfirmButtonProps) {
  const t = useT();
  const [open, setOpen] = useState(false);
  const mutation = useAction(action, invalidates);
  const close = () => {
    setOpen(false);
    mutation.reset();
  };
  return (
    <>
      <Button {...buttonProps} aria-label={label} onClick={() => setOpen(true)}>
        {children}
      </Button>
      <Modal
        opened={open}
        onClose={close}
        title={children}
        closeButtonProps={{ "aria-label": t("common.back") }}
      >
        <Stack>
          <Text component="div">{question}</Text>
          {mutation.error && <ErrorAlert error={mutation.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("common.back")}
            </Button>
            <Button
              color={buttonProps.color}
              loading={mutation.isPending}
              onClick={() => mutation.mutate(undefined, { onSuccess: close })}
            >
              {children}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

interface ActionButtonProps extends ButtonProps {
  children: ReactNode;
  action: () => Promise<unknown>;
  invalidates: QueryKeys;
  "aria-label"?: string;
  title?: string;
}

export function ActionButton({ children, action, invalidates, ...buttonProps }: ActionButtonProps) {
  const mutation = useAction(action, invalidates);
  return (
    <>
      <Button
        {...buttonProps}
        loading={mutation.isPending}
        onClick={() => mutation.mutate(undefined)}
      >
        {children}
      </Button>
      {mutation.error && <ErrorAlert error={mutation.error} />}
    </>
  );
}
