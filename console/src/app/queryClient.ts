import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { Problem } from "../api/problem";
import { sessionQuery } from "../api/session";

// A 401 clears the session, which shows the sign-in page.
const onUnauthorized = (error: unknown): void => {
  if (error instanceof Problem && error.status === 401)
    queryClient.setQueryData(sessionQuery.queryKey, null);
};

const isTransient = (error: unknown): boolean =>
  error instanceof Problem && (error.isOffline || error.status === 503 || error.status === 429);

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: onUnauthorized }),
  mutationCache: new MutationCache({ onError: onUnauthorized }),
  defaultOptions: {
    queries: { staleTime: 5000, retry: (count, error) => count < 3 && isTransient(error) },
  },
});
