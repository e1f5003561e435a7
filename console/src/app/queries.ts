import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { Problem } from "../api/problem";
import { sessionQuery } from "../api/session";

// A session that has ended shows the sign-in page, wherever one is.
const noticeEnd = (error: unknown): void => {
  if (error instanceof Problem && error.status === 401)
    queries.setQueryData(sessionQuery.queryKey, null);
};

const mayPass = (error: unknown): boolean =>
  error instanceof Problem && (error.isOffline || error.status === 503 || error.status === 429);

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: { staleTime: 5000, retry: (count, error) => count < 3 && mayPass(error) },
  },
});
