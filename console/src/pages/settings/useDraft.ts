// State of a form field: follows the stored value until the user edits it.
import { useState } from "react";

export interface Draft<T> {
  value: T;
  isEdited: boolean;
  hasChangedElsewhere: boolean;
  set: (value: T) => void;
  reset: (value?: T) => void;
}

export function useDraft<T extends string | boolean>(stored: T): Draft<T> {
  const [draft, setDraft] = useState<{ value: T; from: T } | null>(null);
  // The stored value now equals the draft: the field follows the stored value again.
  if (draft?.value === stored) setDraft(null);
  const current = draft?.value === stored ? null : draft;
  return {
    value: current ? current.value : stored,
    isEdited: current !== null,
    hasChangedElsewhere: current !== null && current.from !== stored,
    set: (value) =>
      setDraft(value === stored ? null : { value, from: current ? current.from : stored }),
    // With a value: resets only if the draft still has that value.
    reset: (value) => setDraft((now) => (value === undefined || now?.value === value ? null : now)),
  };
}
