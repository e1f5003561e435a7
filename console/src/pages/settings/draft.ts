// A field over data that others change, too: it follows what is stored, until somebody is in the midst of editing it.
import { useState } from "react";

export interface Draft<T> {
  value: T;
  isEdited: boolean;
  hasChangedElsewhere: boolean;
  set: (value: T) => void;
  drop: (value?: T) => void;
}

export function useDraft<T extends string | boolean>(stored: T): Draft<T> {
  const [draft, setDraft] = useState<{ value: T; from: T } | null>(null);
  // Somebody else chose the same: from here on it follows again.
  if (draft?.value === stored) setDraft(null);
  const current = draft?.value === stored ? null : draft;
  return {
    value: current ? current.value : stored,
    isEdited: current !== null,
    hasChangedElsewhere: current !== null && current.from !== stored,
    set: (value) =>
      setDraft(value === stored ? null : { value, from: current ? current.from : stored }),
    // With a value: only if nothing else has been typed since.
    drop: (value) => setDraft((now) => (value === undefined || now?.value === value ? null : now)),
  };
}
