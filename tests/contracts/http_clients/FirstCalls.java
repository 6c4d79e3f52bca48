import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Makes each call with a client of its own: `kind base (path body)...`; prints one line a call, status and body. */
public class FirstCalls {
    public static void main(String[] words) throws Exception {
        for (int at = 2; at < words.length; at += 2) {
            URI uri = URI.create(words[1] + words[at]);
            System.out.println(words[0].equals("url") ? byUrl(uri, words[at + 1]) : byClient(uri, words[at + 1]));
        }
    }

    static String byClient(URI uri, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(uri).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        return answer.statusCode() + " " + answer.body().strip();
    }

    static String byUrl(URI uri, String body) throws Exception {
        HttpURLConnection call = (HttpURLConnection) uri.toURL().openConnection();
        call.setRequestProperty("Content-Type", "application/json");
        call.setDoOutput(true);
        call.getOutputStream().write(body.getBytes("UTF-8"));
        int status = call.getResponseCode();
        var stream = status < 400 ? call.getInputStream() : call.getErrorStream();
        String answer = new String(stream.readAllBytes(), "UTF-8").strip();
        call.disconnect();
        return status + " " + answer;
    }
}
