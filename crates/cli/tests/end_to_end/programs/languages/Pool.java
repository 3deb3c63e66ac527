// Compiled code in tiers, a pool of threads, collectors, and faults that become exceptions.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

public class Pool {
    static int deep(int n) {
        return n == 0 ? 0 : 1 + deep(n - 1);
    }

    static long lengths(int factor) {
        long sum = 0;
        Map<Integer, String> words = new HashMap<>();
        for (int i = 0; i < 20000; i++) {
            words.put(i % 500, "v" + i * factor);
            sum += words.get(i % 500).length();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            final int factor = i;
            parts.add(pool.submit(() -> lengths(factor)));
        }
        long total = 0;
        for (Future<Long> part : parts)
            total += part.get();
        pool.shutdown();
        System.out.println(total);
        try {
            Object nothing = null;
            nothing.toString();
        } catch (NullPointerException problem) {
            System.out.println("null pointer");
        }
        try {
            deep(10000000);
        } catch (StackOverflowError problem) {
            System.out.println("overflow");
        }
        try {
            System.out.println(1 / arguments.length);
        } catch (ArithmeticException problem) {
            System.out.println(problem.getMessage());
        }
        System.out.println(IntStream.range(0, 100000).parallel().filter(x -> x % 7 == 0).sum());
        System.gc();
        System.exit(3);
    }
}
